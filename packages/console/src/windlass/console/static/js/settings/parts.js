// The parts of a section of the settings: those that are made by hand for certain fields, and forms of the schema for all others.

import { schemaForm } from "../forms.js";
import * as automatic from "./automatic.js";
import * as build from "./build.js";
import * as database from "./database.js";
import * as health from "./health.js";
import * as instances from "./instances.js";
import * as jobSource from "./job_source.js";
import * as moduleInputs from "./module_inputs.js";
import * as moduleProgram from "./module_program.js";
import * as moduleSource from "./module_source.js";
import * as moduleState from "./module_state.js";
import * as named from "./named.js";
import * as ports from "./ports.js";
import * as schedule from "./schedule.js";
import * as size from "./size.js";
import * as source from "./source.js";
import * as storage from "./storage.js";

// Each is for services that have the first of its fields. The source of a job is one field; others have several.
const BY_HAND = [named, source, database, size, instances, health, ports, storage, schedule, build, jobSource, moduleSource, moduleInputs, moduleProgram, moduleState, automatic];

/** Makes the parts of a section, in the order of its fields. `schema`: of what can be changed. */
export function partsOf({ document, schema, service, path }, names) {
  const there = names.filter((name) => schema.properties[name]);
  const made = BY_HAND.filter(({ fields }) => there.includes(fields[0]));
  const parts = [];
  let plain = [];
  const draw = () => {
    if (plain.length) parts.push({ fields: plain, ...schemaForm(document, schema, { values: service, only: plain }) });
    plain = [];
  };
  for (const name of there) {
    const part = made.find(({ fields }) => fields.includes(name));
    if (part?.fields[0] === name) draw(), parts.push({ fields: part.fields, ...part.edit({ document, schema, service, path }) });
    else if (!part) plain.push(name);
  }
  draw();
  return parts.filter(({ node }) => node.firstChild);
}
