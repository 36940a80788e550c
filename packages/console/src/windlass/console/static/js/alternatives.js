// A choice between parts of a form that exclude each other, as the schema names them: only the chosen ones are shown and sent.

import { h, prose } from "./dom.js";
import { title } from "./format.js";

let groups = 0;

/** Makes the control of an object with `x-alternatives`. `group` makes the control of an object inside. */
export function alternatives(document, schema, value, group) {
  const known = value || {};
  const label = `alternatives-${++groups}`;
  const kinds = Object.entries(schema["x-alternatives"]).map(([name, fields]) => kind(document, schema, name, fields, known, group));
  let chosen = kinds.find(({ isPresent }) => isPresent) || kinds[0];
  const show = () => kinds.forEach((other) => (other.node.hidden = other !== chosen));
  const choose = (other) => () => ((chosen = other), show());
  const choices = h("div", { class: "alternatives", role: "radiogroup" }, kinds.map((other) =>
    h("label", {}, h("input", { type: "radio", name: label, checked: other === chosen, onchange: choose(other) }), " ", other.name)));
  show();
  return { node: h("div", {}, choices, kinds.map(({ node }) => node)), isGroup: true, read: () => Object.assign({}, ...kinds.map((other) => other.read(other === chosen))) };
}

function kind(document, schema, name, fields, known, group) {
  const parts = fields.map((field) => part(document, field, document.resolve(schema.properties[field]), known[field], group, fields.length > 1));
  return {
    name,
    isPresent: parts.some(({ isPresent }) => isPresent),
    node: h("div", { class: "fields" }, parts.map(({ node }) => node)),
    read: (isChosen) => Object.assign({}, ...parts.map((inner) => inner.read(isChosen))),
  };
}

// One of the parts of a choice. Of several, each is switched on by itself. What was set and is left now is sent as null.
function part(document, field, schema, value, group, isOneOfMany) {
  const isPresent = value !== undefined && value !== null;
  const inner = Object.keys(schema.properties || {}).length ? group(document, schema, value, { isRequired: true, folds: true }) : null;
  const box = isOneOfMany && h("input", { type: "checkbox", checked: isPresent, onchange: () => inner && (inner.node.hidden = !box.checked) });
  if (box && inner) inner.node.hidden = !isPresent;
  const help = schema.description && h("p", { class: "help" }, prose(schema.description));
  const read = (isChosen) => {
    if (isChosen && (!box || box.checked)) return { [field]: inner ? inner.read() : {} };
    return isPresent ? { [field]: null } : {};
  };
  return { isPresent, read, node: h("div", { class: box ? "part" : null, "data-field": field }, box && h("label", {}, box, " ", title(field)), help, inner?.node) };
}
