// The program that runs a Terraform module, its version, and what a run may use.

import { api } from "../api.js";
import { fill, h } from "../dom.js";
import { logo } from "../icons.js";
import { field } from "../parts.js";
import { modules } from "../words_of_modules.js";
import { amount, cards, differs } from "./part.js";
import * as size from "./size.js";

const text = modules.program;
const ENGINES = ["TERRAFORM", "OPEN_TOFU"];
const COMMANDS = ["init", "plan", "apply", "destroy"];

export const fields = ["engine", "provider_version", "timeout_sec", "job_resources", "action_extra_arguments"];

export const readVersions = () => api.seen("/terraform/availableVersion").then((found) => found?.results || []);

/** The controls: { node, read(), show(versions) }, where `show` says which versions of each program there are. */
export function programEditor(service) {
  const { provider_version: version = {}, job_resources: resources = {}, action_extra_arguments: options = {} } = service;
  let engine = service.engine;
  const touch = (event) => (event.target.touched = true);
  const abouts = Object.fromEntries(ENGINES.map((name) => [name, h("span", {})]));
  const offered = h("datalist", { id: "versions-of-program" });
  let versions = [];
  const of = (name) => versions.filter((other) => other.engine === name).map((other) => other.version);
  const offer = () => fill(offered, of(engine).map((name) => h("option", { value: name })));
  const wanted = h("input", { value: version.explicit_version || "", placeholder: text.versionExample, list: offered.id, autocomplete: "off", oninput: touch });
  const limit = amount(service.timeout_sec ? service.timeout_sec / 60 : null, text.minutes, { step: "any" });
  const limitField = field(text.limit, limit.input, text.limitHelp, { name: "timeout_sec" });
  limitField.insertBefore(limit.node, limitField.querySelector(".help"));
  limit.node.prepend(limit.input);
  const sizes = size.edit({ service: { cpu: resources.cpu_milli ?? 500, memory: resources.ram_mib ?? 512 } });
  const lines = COMMANDS.map((name) => [name, h("textarea", { rows: 1, class: "code", value: (options[name] || []).join("\n"), spellcheck: "false", oninput: touch })]);
  const linesOf = (input) => input.value.split("\n").map((line) => line.trim()).filter(Boolean);
  const node = h("div", {},
    h("div", { "data-field": "engine" }, cards(text.title, ENGINES.map((name) => [name, text.engines[name], abouts[name], logo(text.engines[name], "large")]), engine, (name) => ((engine = name), offer()))),
    h("div", { class: "line narrow" }, h("div", { "data-field": "provider_version" }, field(text.version, wanted, text.versionHelp, { name: "explicit_version" }), offered), limitField),
    h("h3", {}, text.size), h("div", { "data-field": "job_resources" }, sizes.node),
    h("details", { open: lines.some(([, input]) => input.value), "data-field": "action_extra_arguments" }, h("summary", {}, text.options), h("p", { class: "help" }, text.optionsHelp), h("div", { class: "in-columns" }, lines.map(([name, input]) => field(text.optionsOf(name), input, "", { name })))));
  const show = (found) => {
    versions = found;
    for (const name of ENGINES) fill(abouts[name], of(name).length ? text.here(of(name).join(", ")) : text.absent);
    offer();
  };
  return {
    node, show,
    read: () => ({
      engine,
      provider_version: wanted.value.trim() ? { read_from_terraform_block: false, explicit_version: wanted.value.trim() } : { read_from_terraform_block: true, explicit_version: "" },
      timeout_sec: Math.round((limit.read() || 0) * 60),
      job_resources: { cpu_milli: sizes.read().cpu, ram_mib: sizes.read().memory },
      action_extra_arguments: Object.fromEntries(lines.map(([name, input]) => [name, linesOf(input)]).filter(([, found]) => found.length)),
    }),
  };
}

export function edit({ service }) {
  const editor = programEditor(service);
  readVersions().then(editor.show, () => {}); // Without them, a version can be typed.
  const before = editor.read();
  const changes = () => {
    const now = editor.read();
    const found = Object.fromEntries(Object.entries(now).filter(([name, value]) => differs(value, before[name])));
    const gone = Object.keys(before.action_extra_arguments).filter((name) => !now.action_extra_arguments[name]);
    if (found.action_extra_arguments) for (const name of gone) found.action_extra_arguments[name] = null;
    return found;
  };
  return { title: text.title, node: editor.node, changes };
}
