// Runs of a job: the next due times of its timetable, the run under way, and those that have ended.

import { api } from "../../api.js";
import { h } from "../../dom.js";
import { commandFor } from "../../equivalents.js";
import { ago, clockTime, dayTime, duration, exactTime } from "../../format.js";
import { whileSeen } from "../../live.js";
import { button, dialog, empty, facts, field, link, panel, showError, table } from "../../parts.js";
import { badge, kindOf } from "../../states.js";
import { words } from "../../words.js";

const PAGE = 50;
const text = words.runs;

export const hasMainAction = true;

export async function load(state) {
  const content = { page: 1, more: [] };
  content.read = async () => {
    const [runs, due] = await Promise.all([api.get(`${state.path}/run`, { page_size: PAGE }), state.has("dueTimes") ? api.get(`${state.path}/dueTimes`, { count: 3 }) : null]);
    Object.assign(content, { newest: runs.results, pages: runs.pagination.total_pages, due });
  };
  await content.read();
  return content;
}

export function watch({ content }, place, draw) {
  whileSeen(place, async () => (await content.read(), draw()), () => content.newest.some(isOpen));
}

export function render(state, place) {
  const { path, content } = state;
  const seen = new Set(content.newest.map((run) => run.id));
  const rows = [...content.newest, ...content.more.filter((run) => !seen.has(run.id))];
  const start = state.can("run") && button(text.start, () => runNow(state, place), { main: true, key: "run", needs: ["POST", `${state.path}/run`] });
  return [
    content.due?.scheduled_at && timetable(content.due),
    rows.length ? [h("div", { class: "tools" }, start), table(columns(path), rows, { to: (run) => `${path}/runs/${run.id}`, label: words.tabs.runs })] : empty(text.empty, start, commandFor("windlass job run", state.service.name)),
    content.page < content.pages && button(words.showMore, () => more(state, place)),
  ];
}

function columns(path) {
  return [
    { title: words.columns.state, cell: runBadge },
    { title: words.columns.number, cell: (run) => link(`${path}/runs/${run.id}`, text.number(run.number)) },
    { title: text.cause, wide: true, cell: (run) => [causeOf(run), run.message && run.status !== "SUCCEEDED" && h("p", { class: "message" }, run.message)] },
    { title: text.started, cell: (run) => ago(run.started_at || run.scheduled_for || run.created_at) },
    { title: words.columns.took, kind: "number", cell: (run) => took(run) },
    { title: text.exit, kind: "number titled", cell: (run) => exitCode(run) },
  ];
}

/** True for a run that waits or goes on. For a service, RUNNING is an end; for a run, it is not. */
export const isOpen = (run) => ["QUEUED", "RUNNING"].includes(run.status);

export const runBadge = (run) => badge(run.status, run.status === "RUNNING" ? "busy" : kindOf(run.status));

/** Why it runs: the timetable, an event, a person, or an earlier run that failed. */
export function causeOf(run) {
  if (run.cause === "EVENT") return text.events[run.event] || words.readable(run.event);
  if (run.cause === "FORCED") return text.forcedBy(run.triggered_by || "");
  if (run.cause === "RETRY") return text.retry(run.attempt);
  return run.missed ? text.madeUp(run.missed) : text.causes[run.cause] || words.readable(run.cause);
}

export const took = (run) => (run.duration_seconds === null || run.duration_seconds === undefined ? "" : duration(run.duration_seconds * 1000));

export const exitCode = (run) => (run.exit_code === null || run.exit_code === undefined ? "" : h("code", {}, String(run.exit_code)));

// The server tells the clock of the zone of the job. A second column is shown only if the clock of the reader differs.
function timetable({ scheduled_at, timezone, is_active, due_at, local_times }) {
  const isElsewhere = due_at.some((at, index) => clockTime(at) !== clockTime(wallClock(local_times[index])));
  const rows = due_at.map((at, index) => ({ id: at, at, local: local_times[index] }));
  return panel(text.timetable,
    h("div", { class: "columns" },
      facts([[text.cron, h("code", {}, scheduled_at)], [text.zone, timezone], [text.now, is_active ? text.active : text.inactive]]),
      table([
        ...(is_active ? [{ title: text.next, cell: (row) => ago(row.at) }] : []),
        { title: isElsewhere ? text.there(timezone) : text.clock, kind: isElsewhere ? "titled" : undefined, cell: (row) => h("time", { datetime: row.at, title: exactTime(row.at) }, dayTime(wallClock(row.local))) },
        ...(isElsewhere ? [{ title: text.here, kind: "titled", cell: (row) => h("time", { datetime: row.at, class: "muted" }, dayTime(row.at)) }] : []),
      ], rows, { label: text.next })));
}

// `2026-03-29T02:30:00+02:00` without its offset: the browser then reads it as a clock on the wall.
const wallClock = (local) => local.slice(0, 19);

async function more(state, place) {
  const { content, path } = state;
  content.more.push(...(await api.get(`${path}/run`, { page: ++content.page, page_size: PAGE })).results);
  place.update();
}

// Other arguments hold for this run only.
export async function runNow({ path, service }, place) {
  const usual = service.schedule?.cronjob || service.schedule?.on_start || {};
  const command = h("input", { class: "code", value: usual.entrypoint || "", autocomplete: "off", spellcheck: "false" });
  const given = h("textarea", { rows: 2, class: "code", spellcheck: "false", value: (usual.arguments || []).join("\n"), placeholder: words.onePerLine });
  const before = [command.value, given.value];
  const changes = () => ({
    ...(command.value !== before[0] && { entrypoint: command.value.trim() }),
    ...(given.value !== before[1] && { arguments: given.value.split("\n").map((line) => line.trim()).filter(Boolean) }),
  });
  const made = await dialog(text.startTitle(service.name), (finish) => [
    h("p", {}, text.startWill),
    field(words.newJob.command, command, text.commandHelp, { name: "entrypoint" }),
    field(text.arguments, given, "", { name: "arguments" }),
    h("div", { class: "dialog-actions" }, button(words.cancel, () => finish()), button(text.start, () => api.post(`${path}/run`, changes()).then(finish, showError), { main: true })),
  ], { wide: true });
  if (made) await place.go(`${path}/runs/${made.id}`);
}
