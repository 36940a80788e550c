// One resource of any family: its fields, its form, its lists, its actions, and its deletion.

import { api } from "../api.js";
import { h, own, prose } from "../dom.js";
import { loadDocument } from "../document.js";
import { familyOf } from "../families.js";
import { isIdle, schemaForm } from "../forms.js";
import { title } from "../format.js";
import { button, codeBlock, showError, confirm, dialog, facts, head, panel, say, table } from "../parts.js";
import { save as saveEdited } from "../saving.js";
import { crumbs } from "../shell.js";
import { words } from "../words.js";
import { cell, showOnce } from "./derived_list.js";

const SHOWN = /^(id|description|icon_uri)$/;

export async function load({ params }) {
  const base = `/${params.parent}/${params.parentId}`;
  const list = `${base}/${params.family}`;
  const document = await loadDocument();
  const path = document.itemPath(list, params.id);
  if (!path) throw Object.assign(new Error(words.missing.text), { status: 404 });
  const [parent, { data: item, tag }] = await Promise.all([api.get(base), api.tagged(path)]);
  const operations = Object.fromEntries(["PATCH", "DELETE"].map((method) => [method, document.at(method, path)]));
  const lists = document.listsBelow(path);
  const readings = document.readingsOf(path);
  const below = (operation, query) => api.get(`${path}/${familyOf(operation)}`, query).catch(() => null);
  const [inner, told] = await Promise.all([Promise.all(lists.map((operation) => below(operation, { page_size: 50 }))), Promise.all(readings.map((operation) => below(operation)))]);
  const name = item.name || item.email || item.url || item.target_url || item.key || params.id;
  const edit = operations.PATCH && schemaForm(document, document.body(operations.PATCH), { values: item });
  return {
    base, list, path, document, parent, item, tag, operations, name, edit, title: name, listTitle: document.titleOf(document.at("GET", list)),
    lists: lists.map((operation, index) => ({ operation, rows: inner[index]?.results || [] })),
    readings: readings.map((operation, index) => ({ operation, found: told[index] })).filter(({ found }) => found),
    actions: document.actionsOf(path),
  };
}

export function render(state, place) {
  const { base, list, path, document, parent, item, operations, lists, readings, edit, name, actions } = state;
  const schema = document.answer(document.at("GET", path));
  return [
    crumbs([parent.name, base], [state.listTitle, list], [name]),
    head(name, { about: item.description, actions: actions.map((action) => button(nameOf(action), () => run(state, place, action))) }),
    panel(words.present, values(item, schema, document)),
    readings.map(({ operation, found }) => panel(title(familyOf(operation)), values(found, document.answer(operation), document))),
    lists.map((below) => panel(document.titleOf(below.operation), rowsOf(state, place, below))),
    edit && panel(words.change, own(edit.node), h("div", { class: "actions" }, button(words.save, () => save(state, place), { main: true }))),
    operations.DELETE && panel(words.settings.danger, h("p", {}, operations.DELETE.description || words.remove.forGood), button(words.remove.button, () => remove(state, place), { danger: true })),
  ];
}

const nameOf = (action) => action.summary.replace(/ \(.*\)$/, "");

// Fields without effect or without a value are left out.
function values(found, schema, document) {
  const properties = schema.properties || {};
  const isOwner = (value) => typeof value === "object" && Object.keys(value).join() === "id";
  const has = (value) => value !== null && value !== "" && !(Array.isArray(value) && !value.length) && !isOwner(value);
  const fields = Object.entries(found).filter(([field, value]) => !SHOWN.test(field) && has(value) && !isIdle(document.resolve(properties[field])));
  return facts(fields.map(([field, value]) => [title(field), cell(field, value, document.resolve(properties[field]))]));
}

// A row has the actions of the thing that name it, such as `replay` with `event_id`; a click shows the whole of it.
function rowsOf(state, place, { operation, rows }) {
  if (!rows.length) return h("p", { class: "muted" }, words.nothingYet);
  const { document, actions } = state;
  const properties = document.row(operation).properties || {};
  const names = Object.keys(properties).filter((name) => !/^id$|_id$/.test(name) && rows.some((row) => row[name] !== null && row[name] !== "" && typeof row[name] !== "object")).slice(0, 6);
  const id = `${familyOf(operation)}_id`;
  const onRow = actions.filter((action) => document.body(action).properties?.[id]);
  const whole = (row) => dialog(document.titleOf(operation), (finish) => [codeBlock(JSON.stringify(row, null, 2)), h("div", { class: "dialog-actions" }, button(words.close, () => finish()))], { wide: true });
  return table([
    ...names.map((name) => ({ title: title(name), cell: (row) => cell(name, row[name], document.resolve(properties[name])) })),
    { title: "", cell: (row) => h("div", { class: "actions" }, onRow.map((action) => button(title(familyOf(action)), () => send(state, place, action, { [id]: row.id }), { small: true })), button(words.whole, () => whole(row), { small: true, plain: true })) },
  ], rows, { key: (row) => row.id });
}

async function save(state, place) {
  const changes = state.edit.changes();
  if (!Object.keys(changes).length) return say(words.settings.nothingChanged);
  if (!(await saveEdited(state.path, changes, state.tag, state.item))) return;
  say(words.settings.saved);
  await place.go(`${state.list}/${state.item.id}`, { replace: true });
}

// Sends an action that needs nothing to be filled in.
async function send(state, place, action, body) {
  await api.post(`${state.path}/${familyOf(action)}`, body);
  say(words.doneWith(nameOf(action)));
  await place.go(`${state.list}/${state.item.id}`, { replace: true });
}

async function run(state, place, action) {
  const schema = state.document.body(action);
  const form = Object.keys(schema.properties || {}).length ? schemaForm(state.document, schema) : null;
  const target = `${state.path}/${familyOf(action)}`;
  const heading = nameOf(action);
  const answer = await dialog(heading, (finish) => {
    const send = async () => {
      try {
        finish({ data: await api.post(target, form ? form.read() : {}) });
      } catch (error) {
        showError(error);
      }
    };
    return [action.description && h("p", {}, prose(action.description)), form?.node, h("div", { class: "dialog-actions" }, button(words.cancel, () => finish()), button(heading, send, { main: true }))];
  });
  if (!answer) return;
  if (answer.data) await showOnce(state.document, action, answer.data);
  say(words.doneWith(heading));
  await place.go(`${state.list}/${state.item.id}`, { replace: true });
}

async function remove(state, place) {
  if (!(await confirm(words.remove.title(state.name), words.remove.forGood, { action: words.remove.button, danger: true, name: state.name }))) return;
  await api.delete(state.path, { tag: state.tag });
  say(words.remove.done(state.name));
  await place.go(state.list);
}
