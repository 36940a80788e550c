// The list of any family: its columns, its form and its help are those of the API.

import { api } from "../api.js";
import { h, prose } from "../dom.js";
import { loadDocument } from "../document.js";
import { NAMES } from "../families.js";
import { isIdle, schemaForm, shown } from "../forms.js";
import { ago, bytes, title } from "../format.js";
import { kindIcon } from "../icons.js";
import { button, code, showError, dialog, empty, head, link, table } from "../parts.js";
import { formOf } from "../routes.js";
import { enterOrganizationOf } from "../services.js";
import { crumbs } from "../shell.js";
import { badge } from "../states.js";
import { words } from "../words.js";
import { organizationTexts } from "../words_of_organization.js";

const MOST_COLUMNS = 6;
const SHOWN = 3; // columns of an example
const STATE = /^(state|status)$|_status$/;
export const BYTES = /_bytes$/;
const LATER = /^(id|created_at|updated_at|icon_uri|description)$|_id$|_uri$/;

export async function load(place) {
  const { params } = place;
  const base = `/${params.parent}/${params.parentId}`;
  const path = `${base}/${params.family}`;
  const document = await loadDocument();
  const list = document.at("GET", path);
  if (!list) throw Object.assign(new Error(words.missing.text), { status: 404 });
  const byHand = await formOf(params.family);
  const state = { byHand, path, base, family: params.family, document, list, page: 1, creation: document.at("POST", path), canOpen: Boolean(document.itemPath(path, params.parentId)), title: document.titleOf(list) };
  [state.parent] = await Promise.all([api.get(base), read(state)]);
  await enterOrganizationOf(place, state.parent);
  state.refreshing = { refresh: () => readAgain(state) };
  return state;
}

async function read(state) {
  const answer = await api.get(state.path, { page: state.page, page_size: 100 });
  state.rows = state.page > 1 ? [...state.rows, ...answer.results] : answer.results;
  state.isMore = answer.pagination && answer.pagination.page < answer.pagination.total_pages;
}

// All pages that are shown.
async function readAgain(state) {
  const reading = { path: state.path, rows: [] };
  for (reading.page = 1; reading.page <= state.page; reading.page++) await read(reading);
  Object.assign(state, { rows: reading.rows, isMore: reading.isMore });
}

export function render(state, place) {
  const { path, base, parent, creation, rows } = state;
  const make = creation && button(making(creation), () => create(state, place), { main: true, icon: "plus", needs: ["POST", path] });
  return [
    crumbs([parent.name, base], [state.title]),
    head([kindIcon(state.family), state.title], { about: rows.length ? purposeOf(state) : "", actions: [make] }),
    rows.length ? table(columns(state), rows, { to: state.canOpen && ((row) => `${path}/${row.id}`), label: state.title }) : [empty([words.noneYet(lower(state.title)), " ", purposeOf(state)], make), preview(state)],
    state.isMore && button(words.showMore, async () => (state.page++, await read(state), place.update())),
  ];
}

// What a list is for, in words of its own or those of the API.
const purposeOf = ({ family, document, list }) => (Object.hasOwn(organizationTexts.abouts, family) ? organizationTexts.abouts[family] : prose(document.describe(list.tags[0])));

// An empty page shows what will be there: the example of the API, which nobody can click or hear.
function preview(state) {
  const rows = state.document.examplesOf(state.list).slice(0, 2);
  return rows.length ? h("div", { class: "preview", "aria-hidden": "true", inert: true }, table(columns({ ...state, rows, canOpen: false }).slice(0, SHOWN), rows, { key: (row) => `example-${row.id}` })) : null;
}

// What makes a thing in another way than "Create …" keeps its own words, such as "Run it once".
const making = (operation) => (operation.summary.startsWith("Create ") ? `${words.new} ${noun(operation)}` : operation.summary.replace(/ \(.*\)$/, ""));

const lower = (heading) => heading.replace(/^[A-Z](?=[a-z])/, (letter) => letter.toLowerCase());

const noun = (operation) => operation.summary.replace(/^Create (an?|the) /, "");

function columns({ document, list, path, rows, canOpen, byHand }) {
  const properties = document.row(list).properties || Object.fromEntries(Object.keys(rows[0] || {}).map((name) => [name, {}]));
  const schemaOf = (name) => document.resolve(properties[name]);
  const used = Object.keys(properties).filter((name) => !LATER.test(name) && !isIdle(schemaOf(name)) && rows.some((row) => hasValue(row[name])));
  const checked = used.find((name) => rows.some((row) => typeof row[name]?.status === "string")); // such as the check of a registry
  const simple = used.filter((name) => rows.every((row) => isSimple(row[name])));
  const first = byHand?.first || simple.find((name) => NAMES.includes(name)) || simple[0] || "id";
  const others = simple.filter((name) => name !== first && !NAMES.includes(name)).sort((one, other) => order(one) - order(other)).slice(0, MOST_COLUMNS - 1);
  const created = properties.created_at ? [{ title: words.columns.created, cell: (row) => ago(row.created_at) }] : [];
  const naming = {
    title: title(first), wide: true, cell: (row) => [canOpen ? link(`${path}/${row.id}`, String(row[first] || row.id)) : h("strong", {}, String(row[first])), row.description && h("p", { class: "message muted" }, row.description)],
  };
  if (byHand?.columns) return [naming, ...byHand.columns.filter(({ isRare }) => !isRare), ...created];
  return [
    naming,
    ...(checked ? [{ title: title(checked), cell: (row) => row[checked] && badge(row[checked].status) }] : []),
    ...others.map((name) => ({ title: heading(name), cell: (row) => cell(name, row[name], schemaOf(name)) })),
    ...created,
  ];
}

/** The heading of a field: `last_used_at` as "Last used", `creator_name` as "Creator". */
export const heading = (name) => title(words.fields[name] ? name : name.replace(/_(at|name)$/, ""));

// States come first.
export const order = (name) => Number(!STATE.test(name));

const isSimple = (value) => typeof value !== "object" || value === null || (Array.isArray(value) && typeof value[0] !== "object");

const hasValue = (value) => value !== null && value !== undefined && value !== "" && !(Array.isArray(value) && !value.length);

export function cell(name, value, schema) {
  if (STATE.test(name) && typeof value === "string") return value ? badge(value) : "";
  if (typeof value === "number" && BYTES.test(name)) return bytes(value);
  if (typeof value === "string" && (schema.format === "date-time" || /_at$/.test(name))) return ago(value);
  return shown(value, schema);
}

export async function create(state, place) {
  const { document, creation, path, byHand } = state;
  const schema = document.body(creation);
  const form = byHand ? await byHand.form({ document, schema, base: state.base }) : schemaForm(document, schema, { only: requiredFirst(schema), choices: await choicesFor(state, schema), hide: outdated(schema) });
  const send = byHand?.create || api.post;
  const run = async (finish) => {
    try {
      const made = await send(path, form.read());
      if (made) finish(made);
    } catch (error) {
      showError(error);
    }
  };
  const made = await dialog(making(creation), (finish) => [form.node, h("div", { class: "dialog-actions" }, button(words.cancel, () => finish()), button(words.create, () => run(finish), { main: true }))], { wide: true });
  if (!made) return;
  await showOnce(document, creation, made);
  state.page = 1;
  await read(state);
  place.update();
}

/** Fields of a schema that another one of it has taken the place of. */
export const outdated = ({ properties }) => (properties.scopes ? ["scope", "role_id"] : []);

function requiredFirst(schema) {
  const required = schema.required || [];
  return [...required, ...Object.keys(schema.properties).filter((name) => !required.includes(name))];
}

// Ids of roles are chosen by their names.
async function choicesFor({ base }, schema) {
  if (!schema.properties.role_id) return {};
  const roles = await api.all(`${base}/availableRole`);
  return { role_id: roles.map((role) => [role.id, `${role.name}: ${role.description}`]) };
}

/** Shows values that only this answer has, such as a token. */
export async function showOnce(document, operation, made) {
  const once = Object.entries(document.answer(operation).properties || {}).filter(([name, schema]) => made[name] && document.resolve(schema)["x-shown-once"]);
  if (!once.length) return false;
  await dialog(words.shownOnce.title, (finish) => [h("p", {}, words.shownOnce.text), once.map(([name]) => h("div", {}, h("h3", {}, title(name)), code(made[name]))), h("div", { class: "dialog-actions" }, button(words.shownOnce.done, () => finish(), { main: true }))]);
  return true;
}
