// One resource of any family: its fields, its form, its lists, its actions, and its deletion.

import { api } from "../api.js";
import { h, own, prose } from "../dom.js";
import { forgetEdits, hold } from "../edits.js";
import { loadDocument } from "../document.js";
import { familyOf, nameOf } from "../families.js";
import { isIdle, schemaForm } from "../forms.js";
import { ago, bytes, title } from "../format.js";
import { button, codeBlock, showError, confirm, dialog, facts, head, panel, say, table } from "../parts.js";
import { pause } from "../live.js";
import { formOf } from "../routes.js";
import { save as saveEdited } from "../saving.js";
import { enterOrganizationOf } from "../services.js";
import { crumbs } from "../shell.js";
import { words } from "../words.js";
import { BYTES, cell, heading, order, outdated, showOnce } from "./derived_list.js";

const PATIENCE = 1000;
const FREE = /_(free|available)_bytes$/;
const NAMES_OF_EVENTS = /_event$/;
const SHOWN = /^(id|description|icon_uri)$/;

export async function load(place) {
  const { params } = place;
  const base = `/${params.parent}/${params.parentId}`;
  const list = `${base}/${params.family}`;
  const document = await loadDocument();
  const path = document.itemPath(list, params.id);
  if (!path) throw Object.assign(new Error(words.missing.text), { status: 404 });
  const [parent, { data: item, tag }] = await Promise.all([api.get(base), api.tagged(path)]);
  await enterOrganizationOf(place, parent);
  const operations = Object.fromEntries(["PATCH", "DELETE"].map((method) => [method, document.at(method, path)]));
  const byHand = await formOf(params.family);
  const lists = document.listsBelow(path).filter((operation) => !byHand?.unlisted?.includes(familyOf(operation)));
  const readings = document.readingsOf(path);
  const parts = [...lists, ...readings].map((operation) => ({ operation, found: null, error: null }));
  const reading = Promise.all(parts.map((part) => read(path, part)));
  await Promise.race([reading, pause(PATIENCE)]);
  const name = nameOf(item);
  const schema = document.body(operations.PATCH);
  const own = byHand && operations.PATCH && (await byHand.form({ document, schema, base, values: item }));
  const edit = operations.PATCH && hold(own?.changes ? own : schemaForm(document, schema, { values: item, hide: outdated(schema) }));
  const more = byHand?.loadMore && (await byHand.loadMore({ base, item }));
  const state = {
    base, list, more, path, document, parent, item, tag, operations, name, edit, title: name, listTitle: document.titleOf(document.at("GET", list)),
    byHand, lists: parts.slice(0, lists.length), readings: parts.slice(lists.length), reading, actions: document.actionsOf(path),
  };
  // The form keeps the version that it began with, so that an edit of another person is told when this one is saved.
  const refresh = async () => {
    state.item = await api.get(path);
    await Promise.all(lists.map((operation, index) => read(path, state.lists[index])));
  };
  return Object.assign(state, { refreshing: { refresh } });
}

// Some parts are read from other servers, such as a registry: they may take long, or fail with a reason to be shown.
async function read(path, part) {
  try {
    part.found = await api.get(`${path}/${familyOf(part.operation)}`, part.operation.parameters?.some(({ name }) => name === "page_size") ? { page_size: 50 } : {});
  } catch (error) {
    part.error = error;
  }
}

export const watch = (state, place, draw) => void state.reading.then(draw);

export function render(state, place) {
  const { base, list, path, document, parent, item, operations, lists, readings, edit, name, actions } = state;
  const schema = document.answer(document.at("GET", path));
  return [
    crumbs([parent.name, base], [state.listTitle, list], [name]),
    head(name, { about: item.description, actions: actions.map((action) => button(wordsOf(action), () => run(state, place, action), { needs: [action.method, action.path] })) }),
    state.byHand?.present ? state.byHand.present(state, place) : [
      panel(words.present, state.byHand?.columns ? facts([...state.byHand.columns.map((column) => [column.title, column.cell(item)]).filter(([, value]) => value !== false), [words.columns.created, ago(item.created_at)]]) : values(item, schema, document)),
      readings.map((part) => readingOf(state, place, part)),
    ],
    lists.map((below) => panel(document.titleOf(below.operation), rowsOf(state, place, below))),
    edit && panel(words.change, own(edit.node), h("div", { class: "actions" }, button(words.save, () => save(state, place), { main: true, needs: ["PATCH", path] }))),
    operations.DELETE && panel(words.remove.button, h("p", {}, operations.DELETE.description || words.remove.forGood), button(words.remove.button, () => remove(state, place), { danger: true, needs: ["DELETE", path] })),
  ];
}

// What is made and removed apart from the thing, such as the webhook of a registry, says when it was made.
function readingOf(state, place, { operation, found, error }) {
  const { document, item, path } = state;
  const heading = title(familyOf(operation));
  if (!found) return panel(heading, absent(error));
  const target = `${path}/${familyOf(operation)}`;
  const removal = found.created_at && document.at("DELETE", target);
  return panel(heading, values(without(found, item.id), document.answer(operation), document),
    removal && h("div", { class: "actions" }, button(wordsOf(removal), () => removePart(state, place, removal, target), { danger: true, needs: ["DELETE", target] })));
}

const wordsOf = (action) => action.summary.replace(/ \(.*\)$/, "");

const absent = (error) => h("p", { class: error ? "message trouble" : "muted" }, error ? prose(error.message) : words.reading);

const without = (found, id) => Object.fromEntries(Object.entries(found).filter(([, value]) => value !== id));

/** How much of a room is taken, where a field says its size and another one what is free of it. */
function room(found, field) {
  const [whole, name] = [found[field], field.replace(BYTES, "")];
  const free = found[`${name}_free_bytes`] ?? found[`${name}_available_bytes`];
  return typeof free === "number" && [h("meter", { min: 0, max: whole, value: whole - free, high: whole * 0.9, optimum: 0 }), ` ${words.freeOf(bytes(free), bytes(whole))}`];
}

// Fields without effect or without a value are left out; the fields of a part stand beside those of the whole.
function values(found, schema, document) {
  return facts(pairs(found, schema, document));
}

function pairs(found, schema, document, above = "") {
  const properties = schema.properties || {};
  const isOwner = (value) => typeof value === "object" && Object.keys(value).join() === "id";
  const has = (value) => value !== null && value !== "" && !(Array.isArray(value) && !value.length) && !isOwner(value);
  const fields = Object.entries(found).filter(([field, value]) => !SHOWN.test(field) && has(value) && !isIdle(document.resolve(properties[field])));
  return fields.flatMap(([field, value]) => {
    const inner = document.resolve(properties[field]);
    const label = heading(field.replace(BYTES, ""));
    const name = above ? `${above}: ${label.toLowerCase()}` : label;
    const isPart = inner.properties && !Array.isArray(value) && typeof value === "object" && !value.name;
    if (FREE.test(field) && field.replace(FREE, "_bytes") in found) return [];
    return isPart ? pairs(value, inner, document, name) : [[name, (BYTES.test(field) && room(found, field)) || cell(field, value, inner)]];
  });
}

// A row has the actions of the thing that name it, such as `replay` with `event_id`; a click shows the whole of it.
function rowsOf(state, place, { operation, found, error }) {
  if (!found) return absent(error);
  const rows = found.results;
  if (!rows.length) return h("p", { class: "muted" }, words.nothingYet);
  const { document, actions, item } = state;
  const properties = document.row(operation).properties || {};
  const same = (name) => rows.every((row) => row[name] === item[name]); // such as the kind of a webhook, which stands above
  const body = Object.keys(properties).find((name) => /_body$/.test(name) && rows.some((row) => row[name])); // what was answered, or why nothing was
  const names = Object.keys(properties).filter((name) => !/^id$|_(id|body|used)$/.test(name) && !same(name) && rows.some((row) => isShort(row[name]))).sort((one, other) => order(one) - order(other)).slice(0, body ? 4 : 6);
  const id = `${familyOf(operation)}_id`;
  const onRow = actions.filter((action) => document.body(action).properties?.[id]);
  const whole = (row) => dialog(document.titleOf(operation), (finish) => [codeBlock(JSON.stringify(row, null, 2)), h("div", { class: "dialog-actions" }, button(words.close, () => finish()))], { wide: true });
  return table([
    ...names.map((name) => ({ title: heading(name), kind: "whole-words", cell: (row) => (NAMES_OF_EVENTS.test(name) ? words.readable(row[name]) : row[name] === 0 && /status_code$/.test(name) ? "–" : cell(name, row[name], document.resolve(properties[name]))) })),
    ...(body ? [{ title: heading(body), wide: true, cell: (row) => row[body] && h("p", { class: "message" }, row[body]) }] : []),
    { title: "", cell: (row) => h("div", { class: "actions" }, onRow.map((action) => button(title(familyOf(action)), () => send(state, place, action, { [id]: row.id }), { small: true, needs: [action.method, action.path] })), button(words.whole, () => whole(row), { small: true, plain: true })) },
  ], rows, { key: (row) => row.id });
}

const isShort = (value) => value !== null && value !== "" && (typeof value !== "object" || (Array.isArray(value) && value.length > 0 && typeof value[0] !== "object"));

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
  say(words.doneWith(wordsOf(action)));
  await place.go(`${state.list}/${state.item.id}`, { replace: true });
}

async function run(state, place, action) {
  const own = state.byHand?.actions?.[familyOf(action)];
  if (own) {
    await own(state);
    return place.go(`${state.list}/${state.item.id}`, { replace: true });
  }
  const schema = state.document.body(action);
  const form = Object.keys(schema.properties || {}).length ? schemaForm(state.document, schema) : null;
  const target = `${state.path}/${familyOf(action)}`;
  const heading = wordsOf(action);
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
  const isShown = answer.data && (await showOnce(state.document, action, answer.data));
  if (answer.data && !answer.data.id && !isShown) await showOutcome(state, action, answer.data);
  else say(words.doneWith(heading));
  await place.go(`${state.list}/${state.item.id}`, { replace: true });
}

// An answer that is no thing tells how it went, such as a check.
function showOutcome({ document }, action, outcome) {
  return dialog(wordsOf(action), (finish) => [values(outcome, document.answer(action), document), h("div", { class: "dialog-actions" }, button(words.close, () => finish()))]);
}

async function removePart(state, place, removal, target) {
  const heading = wordsOf(removal);
  if (!(await confirm(heading, removal.description || words.remove.forGood, { action: heading, danger: true }))) return;
  await api.delete(target);
  say(words.doneWith(heading));
  await place.go(`${state.list}/${state.item.id}`, { replace: true });
}

async function remove(state, place) {
  if (!(await confirm(words.remove.title(state.name), words.remove.forGood, { action: words.remove.button, danger: true, name: state.name }))) return;
  await api.delete(state.path, { tag: state.tag });
  forgetEdits();
  say(words.remove.done(state.name));
  await place.go(state.list);
}
