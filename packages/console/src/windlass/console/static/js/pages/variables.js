// Variables and secrets: one table over all levels, with where each value comes from and what is overridden.
// Changes are collected, shown as a difference, and then saved one after the other.

import { api } from "../api.js";
import { loadDocument } from "../document.js";
import { h } from "../dom.js";
import { holdInWindow } from "../edits.js";
import { parseDotenv } from "../dotenv.js";
import { fieldError } from "../field_errors.js";
import { ago } from "../format.js";
import { button, confirm, dialog, empty, field, head, link, menu, say, table } from "../parts.js";
import { deploy } from "../services.js";
import { crumbs } from "../shell.js";
import { words } from "../words.js";
import { showUses } from "../variable_uses.js";

const text = words.variables;

export async function load(place) {
  const { environment: id, project } = place.params;
  const path = id ? `/environment/${id}` : `/project/${project}`;
  const [thing] = await Promise.all([api.get(path), loadDocument()]);
  place.belongsTo(thing.organization);
  const state = await read(place, { path, name: thing.name, above: id && (await api.seen(`/project/${thing.project.id}`)) ? [`/project/${thing.project.id}`] : [] });
  return { ...state, title: `${words.tabs.variables} · ${thing.name}` };
}

export function render(state, place) {
  return [crumbs([state.name, state.path], [words.tabs.variables]), head(words.tabs.variables), draw(state, place)];
}

// Changes that are not saved yet stay while another page is looked at. By account and path.
const unsaved = new Map();
holdInWindow(() => [...unsaved.values()].some(({ size }) => size));

function changesOf(place, path) {
  const key = `${place.account.id} ${path}`;
  if (!unsaved.has(key)) unsaved.set(key, new Map());
  return unsaved.get(key);
}

export async function read(place, { path, name, above, service }) {
  const state = { path, name, above, service, search: "", injected: [], changes: changesOf(place, path), revealed: new Set() };
  state.reload = async () => {
    const [variables, secrets, injected] = await Promise.all([api.all(`${path}/environmentVariable`), api.all(`${path}/secret`), api.get(`${path}/injectedVariable`)]);
    state.injected = injected.results;
    state.rows = [...variables.map((row) => ({ ...row, isSecret: false })), ...secrets.map((row) => ({ ...row, isSecret: true }))].sort((one, other) => one.key.localeCompare(other.key));
  };
  await state.reload();
  state.refreshing = { refresh: state.reload };
  return state;
}

// A failure leads here with the name of the variable that is missing.
export function watch(state, place) {
  const wanted = place.query.get("add");
  if (wanted) edit(state, place, { key: wanted, value: place.query.get("value") || "" });
}

export function draw(state, place) {
  const rows = state.rows.filter((row) => row.key.toLowerCase().includes(state.search.toLowerCase()));
  const { size } = state.changes;
  return [
    h("div", { class: "tools" },
      h("input", { type: "search", placeholder: text.search, "aria-label": text.search, value: state.search, oninput: (event) => ((state.search = event.target.value), place.update()) }),
      button(text.paste, () => paste(state, place), { needs: creating(state) }),
      button(text.add, () => edit(state, place, {}), { main: !size, needs: creating(state) })),
    size > 0 && h("div", { class: "panel pending", role: "status" }, h("p", {}, text.pending(size)), h("ul", { class: "diff" }, [...state.changes.values()].map((change) => difference(change, button(text.discard, () => (state.changes.delete(change.key), place.update()), { small: true, plain: true, title: text.discardOne(change.key) })))),
      h("p", { class: "muted" }, text.takesEffect),
      h("div", { class: "actions" }, button(text.discardAll, () => (state.changes.clear(), place.update())), button(text.save, () => save(state, place, false)), state.service && button(text.saveAndDeploy, () => save(state, place, true), { main: true, needs: [creating(state), ["POST", `${state.path}/deploy`]] }))),
    state.rows.length ? table(columns(state, place), rows, { label: words.tabs.variables }) : empty(text.empty, null, "windlass env set KEY=value", text.withCommand),
    injected(state),
  ];
}

// What other variables may mention, such as the address of a database.
function injected(state) {
  const rows = state.injected.filter((row) => row.key.toLowerCase().includes(state.search.toLowerCase()));
  if (!rows.length) return null;
  return h("details", { class: "panel section", key: "injected" }, h("summary", {}, h("h2", {}, text.injected(rows.length))), h("p", { class: "help" }, text.injectedAbout),
    table([
      { title: text.key, cell: (row) => h("code", { class: "key" }, row.key) },
      { title: text.value, wide: true, cell: (row) => (row.is_secret ? value(state, null, { isSecret: true }) : h("code", { class: "value" }, row.value)) },
      { title: text.from, cell: (row) => row.service_name || h("span", { class: "muted" }, "Windlass") },
    ], rows, { key: (row) => row.key + row.owner_id, label: text.injected(rows.length) }));
}

const creating = ({ path }) => ["POST", `${path}/environmentVariable`];

function columns(state, place) {
  return [
    { title: text.key, cell: (row) => h("code", { class: "key" }, row.key) },
    { title: text.value, wide: true, cell: (row) => value(state, place, row) },
    { title: text.from, cell: (row) => [h("span", { class: "tag" }, words.levels[row.scope] || words.service), overriddenBy(row) && h("span", { class: "muted" }, ` ${text.overrides(words.levels[overriddenBy(row).scope] || words.service)}`), isOverridden(state, row) && h("span", { class: "muted" }, ` ${text.overridden}`)] },
    { title: text.changed, cell: (row) => (row.scope === "BUILT_IN" ? "" : ago(row.updated_at)) },
    { title: "", cell: (row) => row.scope !== "BUILT_IN" && menu(text.actionsOf(row.key), [
      button(text.history, () => showHistory(state, row), { plain: true }),
      button(text.uses, () => showUses(state, row), { plain: true }),
      button(isOwn(state, row) ? text.change : text.override, () => edit(state, place, row), { plain: true, needs: creating(state) }),
      isOwn(state, row) && button(words.remove.button, () => stage(state, place, { kind: "remove", row, key: row.key }), { plain: true, danger: true, needs: ["DELETE", `${state.path}/environmentVariable/${row.id}`] }),
    ]) },
  ];
}

const overriddenBy = (row) => row.overridden_variable || row.overridden_secret;

// A value that another one of the same name takes the place of, nearer to what this page is about.
function isOverridden({ rows }, row) {
  return rows.some((other) => overriddenBy(other)?.id === row.id);
}

// The level of a row is that of this page where the list of this page holds it.
function isOwn({ path }, row) {
  const level = path.split("/")[1].toUpperCase();
  return row.scope === level;
}

// The history of a variable: of its key at all levels that are seen here.
async function showHistory({ path }, row) {
  const state = { changes: [] };
  const more = async () => {
    const answer = await api.get(`${path}/variableHistory`, { key: row.key, is_secret: row.isSecret, ...(state.next ? { continueToken: state.next } : {}) });
    Object.assign(state, { changes: [...state.changes, ...answer.changes], next: answer.continueToken, isComplete: answer.is_complete });
  };
  await more();
  const list = h("div", {});
  const show = () => list.replaceChildren(...[historyOf(state), state.next && button(words.showMore, async () => (await more(), show()))].flat().filter(Boolean));
  show();
  await dialog(text.historyOf(row.key), (finish) => [list, h("div", { class: "dialog-actions" }, button(words.close, () => finish(), { main: true }))], { wide: true });
}

function historyOf({ changes, next, isComplete }) {
  if (!changes.length) return [empty(text.noHistory)];
  return [
    table([
      { title: text.changed, cell: (change) => ago(change.timestamp) },
      { title: text.changedBy, cell: (change) => [change.changed_by, h("span", { class: "muted" }, ` ${words.origins[change.origin] || words.readable(change.origin)}`)] },
      { title: text.from, cell: (change) => h("span", { class: "tag" }, words.levels[change.scope] || words.service) },
      { title: text.change, wide: true, cell: changeOf },
    ], changes, { key: (change) => change.number, label: text.history }),
    !isComplete && !next && h("p", { class: "muted" }, text.historyEnds),
  ];
}

function changeOf(change) {
  const hide = (part) => (change.is_secret ? "••••••••" : part) || text.emptyValue;
  const others = change.changed.filter((name) => !["key", "value"].includes(name)).map((name) => words.readable(name).toLowerCase());
  return [
    change.former_key && h("p", {}, text.renamed(change.former_key)),
    change.alias_of && h("span", {}, text.aliasOf, " ", h("code", {}, change.alias_of)),
    change.change === "REMOVE" && [h("del", {}, hide(change.former_value)), h("span", { class: "muted" }, ` ${text.removed}`)],
    change.change === "ADD" && !change.alias_of && h("ins", {}, hide(change.value)),
    change.changed.includes("value") && [h("del", {}, hide(change.former_value)), " ", h("ins", {}, hide(change.value))],
    others.length > 0 && h("p", { class: "muted" }, text.alsoChanged(others)),
  ];
}

function value(state, place, row) {
  if (row.isSecret) return h("span", { class: "muted" }, "••••••••", h("span", { class: "unseen" }, text.isSecret));
  if (row.aliased_variable) return h("span", {}, text.aliasOf, " ", h("code", {}, row.aliased_variable.key));
  const shown = row.value || "";
  if (shown.length < 120 && !shown.includes("\n")) return h("code", { class: "value" }, shown);
  const isOpen = state.revealed.has(row.id);
  return [h("code", { class: "value" }, isOpen ? shown : `${shown.slice(0, 100)}…`), button(isOpen ? text.less : text.whole, () => (isOpen ? state.revealed.delete(row.id) : state.revealed.add(row.id), place.update()), { small: true, plain: true })];
}

function difference({ kind, key, before, after, isSecret }, action) {
  const hide = (part) => (isSecret ? "••••••••" : part);
  return h("li", { key }, h("code", { class: "key" }, key), " ",
    before !== undefined && kind !== "add" && h("del", {}, hide(before) || text.emptyValue), " ",
    kind !== "remove" && h("ins", {}, hide(after) || text.emptyValue), kind === "remove" && h("span", { class: "muted" }, ` ${text.removed}`), " ", action);
}

function stage(state, place, change) {
  const before = change.row?.isSecret ? "" : change.row?.value;
  state.changes.set(change.key, { ...change, before, isSecret: change.isSecret ?? change.row?.isSecret });
  place.update();
}

async function edit(state, place, row) {
  const isNew = !row.id;
  const changed = await dialog(isNew ? text.add : text.changeOf(row.key), (finish) => {
    const key = h("input", { value: row.key || "", readonly: !isNew, autocomplete: "off", spellcheck: "false", placeholder: "GREETING" });
    const content = h("textarea", { rows: 4, value: row.isSecret ? "" : row.value || "", spellcheck: "false", autofocus: !isNew || Boolean(row.key) });
    const secret = h("input", { type: "checkbox", role: "switch", checked: Boolean(row.isSecret), disabled: !isNew });
    return [
      field(text.key, key, "", { name: "key" }),
      field(text.value, content, text.valueHelp, { name: "value" }),
      addresses(state, content),
      field(text.secret, secret, text.secretHelp, { isSwitch: true }),
      h("div", { class: "dialog-actions" }, button(words.cancel, () => finish()), button(text.stage, () => finish({ key: nameIn(key), value: content.value, isSecret: secret.checked }), { main: true })),
    ];
  });
  if (!changed) return;
  const known = row.id ? row : state.rows.find((other) => other.key === changed.key);
  const kind = !known ? "add" : isOwn(state, known) ? "change" : "override";
  stage(state, place, { kind, row: known, key: changed.key, after: changed.value, isSecret: known ? known.isSecret : changed.isSecret });
}

// The addresses of services, such as a database, that a value may mention.
function addresses(state, content) {
  const rows = state.injected.filter(({ key }) => key.endsWith("_URL") && !key.startsWith("WINDLASS_"));
  const use = ({ key }) => {
    content.value = `{{${key}}}`;
    content.dispatchEvent(new Event("input", { bubbles: true }));
  };
  return rows.length > 0 && h("p", { class: "help" }, text.use, " ", rows.map((row) => button(row.service_name, () => use(row), { small: true, title: row.key })));
}

// Names that the API refuses are not staged.
function nameIn(input) {
  const key = input.value.trim();
  if (!key) throw fieldError("key", text.keyMissing);
  if (!input.readOnly && !/^[A-Za-z_][A-Za-z0-9_.-]*$/.test(key)) throw fieldError("key", text.keyForm);
  return key;
}

async function paste(state, place) {
  const pasted = await dialog(text.paste, (finish) => {
    const content = h("textarea", { rows: 12, class: "code", spellcheck: "false", autofocus: true, placeholder: "GREETING=hello\nDATABASE_URL=\"postgresql://…\"" });
    const secret = h("input", { type: "checkbox", role: "switch" });
    const read = () => finish({ pairs: parseDotenv(content.value, "lines"), isSecret: secret.checked });
    return [field(text.pasted, content, text.pasteHelp, { name: "lines" }), field(text.allSecret, secret, "", { isSwitch: true }),
      h("div", { class: "dialog-actions" }, button(words.cancel, () => finish()), button(text.stage, read, { main: true }))];
  }, { wide: true });
  if (!pasted) return;
  for (const [key, after] of pasted.pairs) {
    const known = state.rows.find((row) => row.key === key);
    if (known && !known.isSecret && isOwn(state, known) && known.value === after) continue;
    stage(state, place, { kind: !known ? "add" : isOwn(state, known) ? "change" : "override", row: known, key, after, isSecret: known ? known.isSecret : pasted.isSecret });
  }
}

async function save(state, place, thenDeploy) {
  const failed = [];
  for (const [key, change] of [...state.changes]) {
    try {
      await apply(state.path, change);
      state.changes.delete(key);
    } catch (error) {
      failed.push(`${key}: ${error.message}`);
    }
  }
  await state.reload();
  place.update();
  if (failed.length) return say(failed.join("\n"), { bad: true });
  if (thenDeploy) return deploy(place, state.path);
  say(text.saved, { action: state.service && link(state.path, words.actions.deploy.button) });
}

async function apply(path, { kind, row, key, before, after, isSecret }) {
  const list = `${path}/${isSecret ? "secret" : "environmentVariable"}`;
  if (kind === "add") return api.post(list, { key, value: after });
  if (kind === "override") return api.post(`${list}/${row.id}/override`, { value: after });
  const { data: now, tag } = await api.tagged(`${list}/${row.id}`);
  if (now.updated_at !== row.updated_at && !(await confirm(words.conflict.title, [text.changedMeanwhile(key), difference({ key, before: now.value, after, kind, isSecret })], { action: words.conflict.saveMine }))) throw new Error(text.kept);
  return kind === "remove" ? api.delete(`${list}/${row.id}`, { tag }) : api.patch(`${list}/${row.id}`, { value: after }, tag);
}
