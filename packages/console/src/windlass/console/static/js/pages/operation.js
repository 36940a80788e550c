// Any operation of the API as a form. The palette leads here.

import { api } from "../api.js";
import { h, own } from "../dom.js";
import { loadDocument } from "../document.js";
import { schemaForm } from "../forms.js";
import { title } from "../format.js";
import { button, codeBlock, field, head, panel, say } from "../parts.js";
import { asCommand, asRequest } from "../equivalents.js";
import { words } from "../words.js";
import { showOnce } from "./derived_list.js";

const text = words.operation;

export async function load({ params, org, query }) {
  const document = await loadDocument();
  const operation = document.operation(params.operation);
  if (!operation) throw Object.assign(new Error(words.missing.text), { status: 404 });
  const names = [...operation.path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
  const services = names.some((name) => name !== "org_id") ? await api.all(`/organization/${org.id}/services`) : [];
  const body = document.body(operation);
  return { document, operation, names, ids: { ...Object.fromEntries(query), org_id: org.id }, options: optionsFor(document, names, services), form: body.properties ? schemaForm(document, body) : null, title: operation.summary, answer: undefined };
}

// The choices for a parameter: services by their kind, and the environments and projects that have services.
function optionsFor(document, names, services) {
  const unique = (id, label) => [...new Map(services.map((service) => [service[id], label(service)]))];
  const families = document.families();
  return Object.fromEntries(names.map((name) => [name,
    families[name] === "environment" ? unique("environment_id", (service) => `${service.project_name} / ${service.environment_name}`)
      : families[name] === "project" ? unique("project_id", (service) => service.project_name)
        : services.filter((service) => service.service_type.toLowerCase() === families[name]).map((service) => [service.id, `${service.name} (${service.environment_name})`])]));
}

export function render(state, place) {
  const { operation, names, ids, options, form } = state;
  const path = names.reduce((found, name) => found.replace(`{${name}}`, () => (ids[name] ? encodeURIComponent(ids[name]) : `{${name}}`)), operation.path); // An id of an address stays one word of the path.
  const set = (name) => (event) => ((ids[name] = event.target.value.trim()), place.update());
  const isReady = names.every((name) => ids[name]);
  return [
    head(operation.summary, { about: operation.description }),
    panel(null,
      names.filter((name) => name !== "org_id").map((name) => field(title(name), options[name].length && (!ids[name] || options[name].some(([id]) => id === ids[name])) ? h("select", { id: name, onchange: set(name) }, h("option", { value: "" }, words.choose), options[name].map(([id, label]) => h("option", { value: id, selected: ids[name] === id }, label))) : h("input", { id: name, value: ids[name] || "", oninput: set(name), spellcheck: "false" }))),
      form && own(form.node),
      h("div", { class: "actions" }, button(operation.method === "DELETE" ? words.remove.button : verbOf(operation), () => run(state, place, path), { main: operation.method !== "DELETE", danger: operation.method === "DELETE", disabled: !isReady, needs: [operation.method, operation.path] }))),
    state.answer !== undefined && panel(text.answer, codeBlock(state.answer ? JSON.stringify(state.answer, null, 2) : text.noAnswer)),
    panel(words.asApi, codeBlock(asRequest(operation.method, path)), codeBlock(asCommand(operation.method, path))),
  ];
}

// A summary begins with its verb, such as "Create a container registry".
const verbOf = ({ summary }) => summary.split(" ", 1)[0];

async function run(state, place, path) {
  const { operation, form, document } = state;
  const body = form ? form.read() : undefined;
  const answer = operation.method === "POST" ? await api.post(path, body || {}) : operation.method === "DELETE" ? (await api.delete(path, { body })).data : (await api[operation.method.toLowerCase()](path, body)).data;
  state.answer = answer;
  if (answer) await showOnce(document, operation, answer);
  say(words.doneWith(operation.summary));
  place.update();
}
