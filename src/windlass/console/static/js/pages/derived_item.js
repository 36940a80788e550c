// One thing of any family: its fields, its form, its lists and actions, and what removes it.

import { api } from "../api.js";
import { h, own } from "../dom.js";
import { loadDocument } from "../document.js";
import { isIdle, schemaForm } from "../forms.js";
import { title } from "../format.js";
import { button, complain, confirm, dialog, facts, head, panel, say, table } from "../parts.js";
import { crumbs } from "../shell.js";
import { words } from "../words.js";
import { cell, showOnce } from "./derived_list.js";

export async function load({ params }) {
  const base = `/organization/${params.organization}`;
  const list = `${base}/${params.family}`;
  const path = `${list}/${params.id}`;
  const [document, organization, { data: item, tag }] = await Promise.all([loadDocument(), api.get(base), api.tagged(path)]);
  const operations = Object.fromEntries(["PATCH", "PUT", "DELETE"].map((method) => [method, document.at(method, path)]));
  const lists = document.listsBelow(path);
  const inner = await Promise.all(lists.map((operation) => api.get(`${path}/${operation.path.split("/").pop()}`, { page_size: 50 }).then((answer) => answer.results, () => [])));
  const name = item.name || item.email || item.url || item.target_url || item.key || params.id;
  const edit = operations.PATCH && schemaForm(document, document.body(operations.PATCH), { values: item });
  return { base, list, path, document, organization, item, tag, operations, lists, inner, name, edit, actions: document.actionsOf(path), title: name, listTitle: document.titleOf(document.at("GET", list)) };
}

export function render(state, place) {
  const { base, list, path, document, organization, item, operations, lists, inner, edit, name, actions } = state;
  const schema = document.answer(document.at("GET", path)).properties || {};
  return [
    crumbs([organization.name, base], [state.listTitle, list], [name]),
    head(name, { about: item.description, actions: actions.map((action) => button(action.summary.replace(/ \(.*\)$/, ""), () => run(state, place, action))) }),
    panel(words.present, facts(Object.entries(item).filter(([field, value]) => field !== "description" && !(Array.isArray(value) && !value.length) && !isIdle(document.resolve(schema[field]))).map(([field, value]) => [title(field), value === null || value === "" ? "" : cell(field, value, document.resolve(schema[field]))]))),
    lists.map((operation, index) => panel(document.titleOf(operation), rows(inner[index], document.row(operation).properties, document))),
    edit && panel(words.change, own(edit.node), h("div", { class: "actions" }, button(words.save, () => save(state, place), { main: true }))),
    operations.DELETE && panel(words.settings.danger, h("p", {}, document.operation(operations.DELETE.id).description || words.remove.forGood), button(words.remove.button, () => remove(state, place), { danger: true })),
  ];
}

function rows(results, properties = {}, document) {
  if (!results.length) return h("p", { class: "muted" }, words.nothingYet);
  const names = Object.keys(properties).filter((name) => !/^id$|_id$/.test(name) && results.some((row) => row[name] !== null && row[name] !== "" && typeof row[name] !== "object")).slice(0, 7);
  return table(names.map((name) => ({ title: title(name), cell: (row) => cell(name, row[name], document.resolve(properties[name])) })), results, { key: (row) => row.id });
}

async function save(state, place) {
  const changes = state.edit.changes();
  if (!Object.keys(changes).length) return say(words.settings.nothingChanged);
  await api.patch(state.path, changes, state.tag);
  say(words.settings.saved);
  await place.go(state.path, { replace: true });
}

async function run(state, place, action) {
  const schema = state.document.body(action);
  const form = Object.keys(schema.properties || {}).length ? schemaForm(state.document, schema) : null;
  const target = `${state.path}/${action.path.split("/").pop()}`;
  const heading = action.summary.replace(/ \(.*\)$/, "");
  const answer = await dialog(heading, (finish) => {
    const send = async () => {
      try {
        finish({ data: await api.post(target, form ? form.read() : {}) });
      } catch (error) {
        complain(error);
      }
    };
    return [action.description && h("p", {}, action.description), form?.node, h("div", { class: "dialog-actions" }, button(words.cancel, () => finish()), button(heading, send, { main: true }))];
  });
  if (!answer) return;
  if (answer.data) await showOnce(state.document, action, answer.data);
  say(words.doneWith(heading));
  await place.go(state.path, { replace: true });
}

async function remove(state, place) {
  if (!(await confirm(words.remove.title(state.name), words.remove.forGood, { action: words.remove.button, danger: true, name: state.name }))) return;
  await api.delete(state.path, { tag: state.tag });
  say(words.remove.done(state.name));
  await place.go(state.list);
}
