// Forms that are drawn from schemas: fields, help, limits. What is sent are the fields that were changed.

import { alternatives } from "./alternatives.js";
import { h, prose } from "./dom.js";
import { byTitles, fieldError } from "./field_errors.js";
import { fieldTime, title } from "./format.js";
import { reference } from "./references.js";
import { words } from "./words.js";

/**
 * Makes a form of a schema. `values` are the present ones; `only` limits and orders the fields.
 * Returns { node, read(), changes(), limit(names) }: `read` gives all that is filled in, `changes` what differs from
 * `values`; `limit` leaves some of the fields. If the form `folds`, optional fields without an example and a value are folded.
 */
export function schemaForm(document, schema, { values = {}, only, choices = {}, hide = [], folds = false } = {}) {
  const resolved = document.resolve(schema);
  const names = (only || Object.keys(resolved.properties || {})).filter((name) => resolved.properties?.[name] && !hide.includes(name) && !isUnused(document, document.resolve(resolved.properties[name])));
  const required = new Set(resolved.required || []);
  const fields = names.map((name) => [name, field(document, name, document.resolve(resolved.properties[name]), values[name], { isRequired: required.has(name), choices: choices[name], folds, siblings: Object.keys(resolved.properties) })]);
  let left = null;
  const taken = () => fields.filter(([name]) => !left || left.includes(name));
  const read = () => Object.fromEntries(taken().map(([name, part]) => [name, part.read()]).filter(([, value]) => value !== undefined));
  const changes = () => Object.fromEntries(taken().map(([name, part]) => [name, part.read(), part.start]).filter(([, value, start]) => differs(value, start)).map(([name, value]) => [name, value ?? null]));
  const isSeldom = ([name]) => folds && !required.has(name) && !values[name] && !isUsual(document.resolve(resolved.properties[name]));
  const seldom = fields.every(isSeldom) ? [] : fields.filter(isSeldom);
  const used = fields.filter((field) => !seldom.includes(field));
  const node = h("div", { class: "fields" }, used.map(([, part]) => part.node),
    seldom.length > 0 && h("details", {}, h("summary", {}, words.newService.further), seldom.map(([, part]) => part.node)));
  const limit = (some) => {
    left = some;
    for (const [name, part] of fields) part.node.hidden = !some.includes(name);
  };
  for (const [name, part] of fields) decideBy(document.resolve(resolved.properties[name])["x-fields-by"], part, fields, values);
  return { node, read, changes, limit };
}

// Leaves those fields of a part that the value of another field decides on, such as the kind of a registry.
function decideBy(rule, part, fields, values) {
  if (!rule) return;
  const decider = fields.find(([name]) => name === rule.field)?.[1];
  const decide = () => {
    const names = rule.values[decider ? decider.read() : values[rule.field]] || [];
    part.limit(names);
    part.node.hidden = !names.length;
  };
  decider?.node.addEventListener("change", decide);
  decide();
}

/** True for a field that is kept for other clients of the interface. */
export const isIdle = (schema) => Boolean(schema["x-without-effect"]);

// A field without effect, one that this server always refuses, or an object of nothing else.
function isUnused(document, schema) {
  if (isIdle(schema) || schema["x-refused"]) return true;
  const parts = Object.values(schema.properties || {});
  return parts.length > 0 && parts.every((part) => isUnused(document, document.resolve(part)));
}

const isUsual = ({ example, properties }) => example !== undefined || Boolean(properties);

const differs = (one, other) => JSON.stringify(one ?? null) !== JSON.stringify(other ?? null);

const AS_JSON = /,? such as [[{].*[}\]]$/; // An example for programs: here, a list is filled in field by field.

/** Makes one field: { node, read, start }. */
function field(document, name, schema, value, { isRequired, choices, folds, siblings }) {
  const control = controlOf(document, name, schema, value, { choices, isRequired, folds });
  const id = `field-${name}-${Math.random().toString(36).slice(2, 8)}`;
  control.input?.setAttribute("id", id);
  if (isRequired) control.input?.setAttribute("aria-required", "true");
  const isChosen = Boolean(schema["x-refers"]) && control.input?.tagName === "SELECT"; // by its name: nobody needs the id
  const heading = title(isChosen ? name.replace(/_id$/, "") : name);
  const about = (schema.description || "").replace(AS_JSON, "").replace(isChosen ? /^Id of .*/ : "", "");
  const help = [schema.format === "date-time" ? words.yourTime : byTitles(about, siblings), !control.isChoice && limits(schema)].filter(Boolean).join(". ");
  if (help && control.input) control.input.setAttribute("aria-describedby", `${id}-help`);
  const label = h(control.input ? "label" : "span", control.input ? { for: id, class: "field-title" } : { class: "field-title" }, heading, isRequired && h("span", { class: "muted" }, ` (${words.required})`));
  const node = control.isGroup
    ? h("fieldset", { class: "field group", "data-field": name }, h("legend", {}, heading), help && h("p", { class: "help" }, prose(help)), control.node)
    : h("div", { class: control.isSwitch ? "field switch" : "field", "data-field": name }, label, control.node, help && h("p", { class: "help", id: `${id}-help` }, prose(help)));
  return { node, read: control.read, start: control.read(), limit: control.limit };
}

const MOST = 2 ** 31 - 1; // a limit of the store, and none that people reach

function limits({ minimum, maximum }) {
  if (minimum !== undefined && maximum < MOST) return words.between(minimum, maximum);
  if (minimum !== undefined) return words.atLeast(minimum);
  return "";
}

function controlOf(document, name, schema, value, { choices, isRequired, folds }) {
  const options = choices || (schema.enum && schema.enum.map((option) => [option, option === null ? words.none : String(option)]));
  if (options) return choice(options, value ?? schema.default, schema, isRequired);
  const known = schema["x-refers"] && reference(document, schema["x-refers"], value);
  if (known) return known;
  if (schema.type === "boolean") return toggle(value ?? schema.default);
  if (schema.type === "integer" || schema.type === "number") return numeric(schema, value);
  if (schema.type === "array") return list(document, name, document.resolve(schema.items), value);
  if (schema["x-alternatives"]) return alternatives(document, schema, value, group);
  if (schema.type === "object" && schema.properties) return group(document, schema, value, { isRequired, folds });
  if (schema.type === "object" || schema.anyOf || schema.oneOf || !schema.type) return json(name, value);
  return text(name, schema, value);
}

function choice(options, value, schema, isRequired) {
  const isOpen = schema.nullable || value === undefined;
  const entries = isOpen && !options.some(([option]) => option === null) ? [[null, isRequired ? words.choose : words.none], ...options] : options;
  const input = h("select", {}, entries.map(([option, shown]) => h("option", { value: option === null ? "" : String(option), selected: option === (value ?? null) }, shown)));
  input.value = value ?? "";
  return { node: input, input, read: () => entries.find(([option]) => (option === null ? "" : String(option)) === input.value)?.[0] ?? (value === undefined ? undefined : null) };
}

function toggle(value) {
  const input = h("input", { type: "checkbox", role: "switch", checked: Boolean(value), onchange: touch });
  let wasChanged = value !== undefined;
  input.addEventListener("change", () => (wasChanged = true));
  return { node: input, input, isSwitch: true, read: () => (wasChanged ? input.checked : undefined) };
}

function numeric(schema, value) {
  const input = h("input", { type: "number", min: schema.minimum, max: schema.maximum, step: schema.type === "integer" ? 1 : "any", value: value ?? "", placeholder: schema.default ?? "", oninput: touch });
  return { node: input, input, read: () => (input.value === "" ? (value === undefined ? undefined : null) : Number(input.value)) };
}

function text(name, schema, value) {
  const isSecret = /secret|password|token$|access_key/.test(name) && !/_id$|_name$/.test(name) && name !== "secret";
  const isLong = schema.maxLength > 5000 || name === "value";
  const date = schema.format === "date-time";
  const props = { value: value ?? "", placeholder: schema.example ?? schema.default ?? "", maxlength: schema.maxLength, autocomplete: isSecret ? "new-password" : "off", spellcheck: "false", oninput: touch };
  const input = isLong ? h("textarea", { rows: 3, ...props }) : h("input", { type: isSecret ? "password" : date ? "datetime-local" : "text", ...props });
  if (date) input.value = fieldTime(value);
  const read = () => {
    if (input.value === "") return value === undefined || value === null ? undefined : schema.nullable ? null : "";
    return date ? new Date(input.value).toISOString() : input.value;
  };
  return { node: input, input, read };
}

function list(document, name, items, value) {
  const values = value || [];
  // An empty list says something else than none: it is sent only where a list was.
  const unless = (found) => (found.length || value ? found : undefined);
  if (items["x-words"]) return many(Object.entries(items["x-words"]), values, unless);
  if (items.type === "string" || items.type === "integer") {
    if (items.enum) return many(items.enum.map((option) => [option]), values, unless);
    const input = h("textarea", { rows: Math.min(6, values.length + 2), value: values.join("\n"), placeholder: [items.example || "", words.onePerLine].filter(Boolean).join("\n"), spellcheck: "false", oninput: touch });
    const parse = items.type === "integer" ? Number : String;
    return { node: input, input, read: () => unless(input.value.split("\n").map((line) => line.trim()).filter(Boolean).map(parse)) };
  }
  const box = h("div", { class: "items" });
  const parts = [];
  const add = (value) => {
    const part = items.properties ? group(document, items, value) : json(name, value);
    const row = h("div", { class: "item" }, part.node, h("button", { type: "button", class: "button small plain", onclick: () => (parts.splice(parts.indexOf(part), 1), row.remove()) }, words.remove.button));
    parts.push(part);
    box.append(row);
  };
  values.forEach(add);
  const node = h("div", {}, box, h("button", { type: "button", class: "button small", onclick: () => add() }, words.add));
  return { node, isGroup: true, read: () => unless(parts.map((part) => part.read() ?? {})) };
}

function many(options, values, unless) {
  const boxes = options.map(([option, about]) => [option, about, h("input", { type: "checkbox", checked: values.includes(option) })]);
  return { node: h("div", { class: "choices" }, boxes.map(([option, about, box]) => h("label", {}, box, " ", option, about && h("span", { class: "muted" }, ` ${about}`)))), isGroup: true, isChoice: true, read: () => unless(boxes.filter(([, , box]) => box.checked).map(([option]) => option)) };
}

function group(document, schema, value, { isRequired = false, folds = false } = {}) {
  const known = value || {};
  const form = schemaForm(document, schema, { values: known, hide: ["id"], folds });
  // What is not shown stays as it is.
  const hidden = Object.fromEntries(Object.entries(known).filter(([name]) => name === "id" || isIdle(document.resolve(schema.properties[name]))));
  return {
    node: form.node,
    isGroup: true,
    limit: form.limit,
    read: () => {
      const found = form.read();
      return Object.values(found).some((part) => part !== null && part !== undefined) ? { ...hidden, ...found } : isRequired ? {} : value ? null : undefined;
    },
  };
}

function json(name, value) {
  const input = h("textarea", { rows: 3, class: "code", "aria-label": title(name), value: value === undefined ? "" : JSON.stringify(value, null, 2), spellcheck: "false", oninput: touch });
  return {
    node: input,
    input,
    read: () => {
      if (!input.value.trim()) return undefined;
      try {
        return JSON.parse(input.value);
      } catch {
        throw fieldError(name, words.mustBeJson);
      }
    },
  };
}

function touch(event) {
  event.target.touched = true;
}

/** A value of any kind, for pages that know no field by name. */
export function shown(value, schema = {}) {
  if (value === null || value === undefined || value === "") return h("span", { class: "muted" }, "–");
  if (typeof value === "boolean") return value ? words.yes : words.no;
  if (Array.isArray(value)) return value.length ? (typeof value[0] === "object" ? h("pre", { class: "value" }, JSON.stringify(value, null, 2)) : value.join(", ")) : h("span", { class: "muted" }, "–");
  if (typeof value === "object") return value.name || (Object.keys(value).join() === "id" ? h("code", { class: "id" }, value.id) : null) || h("pre", { class: "value" }, JSON.stringify(value, null, 2));
  return schema.format === "uuid" ? h("code", { class: "id" }, value) : String(value);
}
