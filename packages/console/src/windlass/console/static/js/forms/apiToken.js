// The form of an API token: what it may do, for how long, and where, picked from the tree of the organization.

import { api } from "../api.js";
import { h } from "../dom.js";
import { fieldError } from "../field_errors.js";
import { schemaForm } from "../forms.js";
import { ago } from "../format.js";
import { serviceIcon, kindIcon } from "../icons.js";
import { field } from "../parts.js";
import { segments } from "../settings/part.js";
import { words } from "../words.js";
import { organizationForms } from "../words_of_forms.js";

const text = organizationForms.tokenForm;
const DAY = 86400000;
const LENGTHS = [["30", text.days(30)], ["90", text.days(90)], ["365", text.year], ["", text.never]];
const USUAL = "90";
const LEAST = "Read";

export async function form({ document, schema, base, values }) {
  if (values) return editForm(document, schema, values);

  const name = h("input", { autocomplete: "off", placeholder: text.nameExample, oninput: (event) => (event.target.touched = true) });
  const rest = schemaForm(document, schema, { only: ["description", "rate_limit"] });
  const scopes = Object.entries(document.resolve(document.resolve(schema.properties.scopes).items)["x-words"]).sort(([one], [other]) => text.order.indexOf(one) - text.order.indexOf(other))
    .map(([scope, about]) => [scope, about, h("input", { type: "checkbox", checked: scope === LEAST })]);
  let length = USUAL;
  let isLimited = false;
  const tree = h("div", { class: "tree", hidden: true });
  const limit = async (value) => {
    isLimited = value === "parts";
    tree.hidden = !isLimited;
    if (isLimited && !tree.firstChild) tree.replaceChildren(...(await branches(base)));
  };
  const read = () => {
    const body = { name: name.value.trim() || undefined, scopes: scopes.filter(([, , box]) => box.checked).map(([scope]) => scope), ...rest.read() };
    if (name.value.trim() && !body.scopes.length) throw fieldError("scopes", text.noScope);
    if (length) body.expires_at = new Date(Date.now() + Number(length) * DAY).toISOString();
    if (isLimited) body.limited_to = [...tree.querySelectorAll("input:checked")].filter(({ disabled }) => !disabled).map(({ value }) => value);
    if (isLimited && !body.limited_to.length) throw fieldError("limited_to", text.noPart);
    return body;
  };
  return {
    read,
    node: h("div", {},
      field(words.columns.name, name, "", { name: "name" }),
      h("fieldset", { class: "field", "data-field": "scopes" }, h("legend", {}, text.scopes), h("div", { class: "checks" }, scopes.map(([scope, about, box]) => h("label", {}, box, " ", h("strong", {}, scope), " ", h("span", { class: "muted" }, about))))),
      h("div", { class: "field", "data-field": "expires_at" }, h("span", { class: "field-title" }, text.expires), segments(text.expires, LENGTHS, length, (value) => (length = value))),
      h("div", { class: "field", "data-field": "limited_to" }, h("span", { class: "field-title" }, text.where), segments(text.where, [["all", text.everywhere], ["parts", text.parts]], "all", limit), tree),
      h("details", {}, h("summary", {}, words.newService.further), rest.node)),
  };
}

// What a token may do, where and for how long is fixed when it is made.
function editForm(document, schema, values) {
  const form = schemaForm(document, schema, { values, only: ["name", "description", "rate_limit"] });
  return { ...form, node: h("div", {}, h("p", { class: "muted" }, text.isFixed), form.node) };
}

// Projects, their environments, and the services in them. What is below a chosen one is in it.
async function branches(base) {
  const [projects, environments, services] = await Promise.all([api.all(`${base}/project`), api.all(`${base}/environments`), api.all(`${base}/services`)]);
  if (!projects.length) return [h("p", { class: "muted" }, text.nothing)];
  return projects.map((project) => branch(project.id, project.name, kindIcon("project"), environments.filter((one) => one.project?.id === project.id || one.project_id === project.id).map((environment) =>
    branch(environment.id, environment.name, kindIcon("environment"), services.filter((one) => one.environment_id === environment.id).map((service) => branch(service.id, service.name, serviceIcon(service), []))))));
}

function branch(id, name, sign, inside) {
  const below = h("div", { class: "below" }, inside);
  const choose = ({ target }) => {
    for (const box of below.querySelectorAll("input")) Object.assign(box, { disabled: target.checked, checked: target.checked });
  };
  return h("div", {}, h("label", {}, h("input", { type: "checkbox", value: id, onchange: choose }), sign, " ", name), inside.length > 0 && below);
}

export const columns = [
  { title: text.scopes, kind: "titled", cell: ({ scopes }) => (scopes || []).join(", ") },
  { title: text.where, kind: "titled", cell: ({ limited_to: parts }) => (parts ? text.partsOf(parts.length) : text.everywhere) },
  { title: text.ends, kind: "titled", cell: ({ expires_at: end }) => (end ? ago(end) : h("span", { class: "muted" }, text.never)) },
  { title: text.used, kind: "titled", cell: ({ last_used_at: used }) => ago(used, { none: h("span", { class: "muted" }, text.unused) }) },
  { title: text.by, kind: "titled", cell: ({ creator_name: name }) => name },
  { title: text.limit, isRare: true, cell: ({ rate_limit: limit }) => limit && text.perHour(limit) },
];
