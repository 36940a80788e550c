// A new database: its kind, its version, and its size.

import { api } from "../../api.js";
import { h, own } from "../../dom.js";
import { button, field } from "../../parts.js";
import { finish } from "../../services.js";
import * as size from "../../settings/size.js";
import { amount, cards } from "../../settings/part.js";
import { words } from "../../words.js";
import { databaseBody, kindCards, readVersions } from "./databases.js";

const text = words.newService;
const USUAL = { cpu: 250, memory: 256 };
const STORAGE = 10;

export async function begin(state) {
  const kinds = kindCards(state.document);
  const content = { type: kinds[0][0], version: "", name: state.suggested || "db", kinds, versions: {}, size: size.edit({ service: USUAL }), storage: amount(STORAGE, "GB", { min: 1 }) };
  content.node = h("div", {}, cards(text.kind, kinds, content.type, (type) => (Object.assign(content, { type, version: "" }), content.draw?.())));
  await read(state, content);
  return content;
}

async function read({ environment }, content) {
  content.environment = environment;
  content.versions = environment ? await readVersions(environment) : {};
}

export const isFilledIn = ({ isTouched }) => Boolean(isTouched);

export function render(state, content, place) {
  content.draw = () => place.update();
  if (content.environment !== state.environment) read(state, content).then(() => place.update());
  const path = `/environment/${state.environment}/database`;
  const set = (name) => (event) => Object.assign(content, { [name]: event.target.value, isTouched: true });
  const versions = content.versions[content.type] || [];
  return h("section", { class: "panel", key: "database" },
    h("p", { class: "muted" }, text.abouts.database),
    own(content.node),
    h("div", { class: "line narrow" },
      field(words.columns.name, h("input", { id: "name", value: content.name, oninput: set("name"), autocomplete: "off" }), "", { name: "name" }),
      field(words.columns.version, h("select", { id: "version", key: content.type, onchange: set("version") }, versions.map((name) => h("option", { value: name, selected: name === content.version }, name))), "", { name: "version" })),
    h("h3", {}, words.settings.size.title), own(content.size.node),
    own(content.storageField ||= storageField(content.storage)),
    h("div", { class: "actions" }, button(text.createOnly, () => create(state, content, place, path, false), { needs: ["POST", path] }), button(text.create, () => create(state, content, place, path, true), { main: true, icon: "rocket", needs: [["POST", path], ["POST", "/database/x/deploy"]] })));
}

function storageField({ node, input }) {
  const made = field(text.storage, input, "", { name: "storage" });
  made.append(node);
  node.prepend(input);
  return h("div", { class: "line narrow" }, made);
}

async function create(state, content, place, path, thenDeploy) {
  const { type, name, versions, version } = content;
  const { id } = await api.post(path, databaseBody(name, type, version || versions[type]?.[0] || "", { ...content.size.read(), storage: content.storage.read() }));
  return finish(place, `/database/${id}`, { thenDeploy });
}
