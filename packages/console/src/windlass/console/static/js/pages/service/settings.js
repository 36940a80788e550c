// The settings of a service as forms, with when a change takes effect; and its whole declaration.

import { h, own } from "../../dom.js";
import { hold, release } from "../../edits.js";
import { schemaForm } from "../../forms.js";
import { button, codeBlock, panel, say } from "../../parts.js";
import { save as saveEdited } from "../../saving.js";
import { asCommand, asRequest } from "../../equivalents.js";
import { SECTIONS } from "../../sections.js";
import { deploy, remove, willOf } from "../../services.js";
import { words } from "../../words.js";

const text = words.settings;
const SILENT = ["icon_uri"]; // This console shows no icons.

export async function load(state, place) {
  const { service, tag } = state; // as they are edited: `state` follows the server
  return { section: place.query.get("section") || "", service, tag, sections: sectionsOf(state) };
}

export function render(state, place) {
  const { content } = state;
  return [
    h("p", { class: "muted" }, text.about),
    content.sections.map((section) => draw(state, place, section)),
    declaration(state),
    panel(text.danger, h("p", {}, willOf(state.path, "remove", words.remove.will)), button(words.remove.button, () => remove(place, state.path, state.service.name, `/environment/${state.service.environment.id}`), { danger: true, needs: ["DELETE", state.path] })),
  ];
}

function draw(state, place, section) {
  const { name, form } = section;
  const isGeneral = name === "general";
  return h("details", { class: "panel section", open: name === (state.content.section || "general"), key: name },
    h("summary", {}, h("h2", {}, text.sections[name])),
    h("p", { class: "help" }, isGeneral ? text.effectNow : text.effectNext),
    own(form.node),
    h("div", { class: "actions" }, button(words.save, () => save(state, place, section, false), { main: isGeneral, needs: ["PATCH", state.path] }), !isGeneral && button(text.saveAndDeploy, () => save(state, place, section, true), { main: true, needs: [["PATCH", state.path], ["POST", `${state.path}/deploy`]] })));
}

function sectionsOf({ document, path, service }) {
  const schema = document.body(document.at("PATCH", path));
  const known = new Set([...SECTIONS.flatMap(([, names]) => names), ...SILENT]);
  const others = Object.keys(schema.properties).filter((name) => !known.has(name));
  return [...SECTIONS, ["other", others]]
    .map(([name, fields]) => [name, fields.filter((field) => schema.properties[field])])
    .filter(([, fields]) => fields.length)
    .map(([name, only]) => ({ name, only, form: hold(schemaForm(document, schema, { values: service, only })) }));
}

// Edits in the other sections stay.
async function save(state, place, section, thenDeploy) {
  const { content, document, path } = state;
  const changes = section.form.changes();
  if (!Object.keys(changes).length) return thenDeploy ? deploy(place, path) : say(text.nothingChanged);
  const answer = await saveEdited(path, changes, content.tag, content.service);
  if (!answer) return;
  Object.assign(content, { service: answer.data, tag: answer.tag });
  state.service = answer.data;
  release(section.form);
  section.form = hold(schemaForm(document, document.body(document.at("PATCH", path)), { values: answer.data, only: section.only }));
  if (thenDeploy) return deploy(place, path);
  say(text.saved);
  place.update();
}

function declaration({ service, path, document }) {
  const fields = Object.keys(document.body(document.at("PUT", path)).properties || {});
  const body = Object.fromEntries(fields.filter((name) => service[name] !== undefined && service[name] !== null).map((name) => [name, service[name]]));
  return h("details", { class: "panel section", key: "declaration" }, h("summary", {}, h("h2", {}, text.declaration)), h("p", { class: "help" }, text.declarationAbout),
    h("h3", {}, words.asApi), codeBlock(asRequest("PUT", path, body)), h("h3", {}, words.asCommand), codeBlock(asCommand("PUT", path, body)));
}
