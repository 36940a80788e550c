// The requests to a service, as its access log has them: newest first, followed, by class of status and by a text.

import { api } from "../../api.js";
import { h } from "../../dom.js";
import { bytes, clockTime, duration, exactTime } from "../../format.js";
import { follow } from "../../live.js";
import { button, code, dialog, empty, facts, link, outside, panel, say, steps, table } from "../../parts.js";
import { refusalOf } from "../../rights.js";
import { words } from "../../words.js";
import { network } from "../../words_of_network.js";

const text = network.requests;
const SETTING = "windlass.access_log.format";
const FIRST = 500; // lines that are read with the page
const MOST_KEPT = 5000;
const SHOWN = 100; // rows, until more are asked for
const BETWEEN = 250; // milliseconds between two drawings of new requests
const CLASSES = ["2", "3", "4", "5"];
const COMBINED = /^(\S+) \S+ \S+ \[[^\]]*\] "(\S+) (\S+)[^"]*" (\d{3}) (\d+) "([^"]*)" "([^"]*)"$/;

export async function load(state) {
  const content = { rows: [], chosen: "", wanted: "", shown: SHOWN, isPaused: false, waiting: [] };
  content.rows = (await read(state.path, { tail: FIRST })).reverse();
  return content;
}

const read = async (path, query) => (await api.get(`${path}/log`, { access: true, ...query })).results.map(requestOf).filter(Boolean);

/** Reads a line of the log, in either of its forms; null if it is none. */
export function requestOf({ id, created_at: at, message }) {
  const combined = COMBINED.exec(message);
  if (combined) {
    const [, client, method, path, status, size, referer, agent] = combined;
    return { id, at, client, method, path, status: Number(status), bytes: Number(size), agent: agent === "-" ? "" : agent, referer: referer === "-" ? "" : referer };
  }
  try {
    const line = JSON.parse(message);
    return { id, at, client: line.address, method: line.method || "", path: line.path || "", status: line.status ?? 499, took: line.ms, bytes: line.bytes, agent: line.user_agent, host: line.host, request: line.request_id, trace: line.trace_id };
  } catch {
    return null;
  }
}

export function watch({ path, content }, place, draw) {
  let timer = 0;
  const take = () => {
    timer = 0;
    const known = new Set(content.rows.slice(0, FIRST).map(({ id }) => id));
    const fresh = content.waiting.splice(0).filter(({ id }) => !known.has(id)).reverse();
    content.rows = [...fresh, ...content.rows].slice(0, MOST_KEPT);
    draw();
  };
  content.take = take;
  place.onStop(() => clearTimeout(timer));
  place.onStop(follow(`${path}/log?access=true&follow=true&tail=50`, {
    event: (line) => {
      const request = requestOf(line);
      if (!request) return;
      content.waiting.push(request);
      if (content.waiting.length > MOST_KEPT) content.waiting.splice(0, content.waiting.length - MOST_KEPT);
      if (!content.isPaused) timer ||= setTimeout(take, BETWEEN);
    },
  }));
}

export function render(state, place) {
  const { content } = state;
  const isOn = isLogged(state.service);
  if (!isOn && !content.rows.length) return howToBegin(state, place);
  const found = content.rows.filter(matching(content));
  return [
    !isOn && panel(null, h("p", {}, text.isOff), h("div", { class: "actions" }, turn(state, place, "json"))),
    tools(state, place, isOn),
    content.rows.length ? list(content, found, place) : waiting(state),
    isOn && h("p", { class: "muted fine" }, text.about, " ", button(text.turnOff, () => set(state, place, "none"), { small: true, plain: true, needs: changing(state) })),
  ];
}

const isLogged = ({ advanced_settings: settings }) => (settings?.[SETTING] || "none") !== "none";

const changing = ({ path }) => ["PUT", `${path}/advancedSettings`];

// The setting acts at once. What is not sent gets its default, so that the others are sent with it.
async function set(state, place, form) {
  const { data: now, tag } = await api.tagged(state.path);
  await api.put(`${state.path}/advancedSettings`, { ...now.advanced_settings, [SETTING]: form }, tag);
  await state.read();
  say(form === "none" ? text.turnedOff : text.turnedOn);
  place.update();
}

const turn = (state, place, form) => button(text.turnOn, () => set(state, place, form), { main: true, needs: changing(state) });

function howToBegin(state, place) {
  if (!isPublic(state.service)) return empty(text.noPort, link(`${state.path}/settings?section=ports`, h("span", { class: "button" }, text.toPorts)));
  return [
    empty([text.off, refusalOf(changing(state)) && h("span", { class: "muted" }, " ", refusalOf(changing(state)))], turn(state, place, "json"), `windlass settings set ${state.service.name} ${SETTING}=json`, text.withCommand),
    steps(text.steps),
  ];
}

const isPublic = ({ ports }) => (ports || []).some(({ publicly_accessible: isOpen, protocol }) => isOpen && ["HTTP", "GRPC"].includes(protocol));

// It is on, and nobody has come.
function waiting({ links, service }) {
  const address = links.find((other) => other.is_default) || links[0];
  return h("div", { class: "empty" }, h("p", {}, text.none), address && h("p", {}, outside(address.url, address.url)), code(`windlass logs ${service.name} --access -f`));
}

const classOf = ({ status }) => String(status).charAt(0);

function matching({ chosen, wanted }) {
  const searched = wanted.toLowerCase().split(/\s+/).filter(Boolean);
  return (request) => (!chosen || classOf(request) === chosen) && searched.every((word) => `${request.method} ${request.path} ${request.status} ${request.client} ${request.agent}`.toLowerCase().includes(word));
}

// The classes are a choice, with the number of requests of each.
function tools({ content }, place, isOn) {
  const counts = content.rows.reduce((sums, request) => ({ ...sums, [classOf(request)]: (sums[classOf(request)] || 0) + 1 }), {});
  const choose = (name) => () => (Object.assign(content, { chosen: name, shown: SHOWN }), place.update());
  const choice = (name, label, count) => h("button", { type: "button", class: "button small", key: name, "aria-pressed": String(content.chosen === name), onclick: choose(name) }, label, h("span", { class: "tally" }, count));
  const pause = () => {
    content.isPaused = !content.isPaused;
    if (!content.isPaused) content.take();
    place.update();
  };
  return h("div", { class: "tools" },
    h("div", { class: "actions", role: "group", "aria-label": text.byStatus }, choice("", text.all, content.rows.length), CLASSES.map((name) => choice(name, `${name}xx`, counts[name] || 0))),
    h("input", { type: "search", placeholder: text.search, "aria-label": text.search, value: content.wanted, oninput: (event) => (Object.assign(content, { wanted: event.target.value, shown: SHOWN }), place.update()) }),
    isOn && button(content.isPaused ? text.resume(content.waiting.length) : words.logs.pause, pause, { small: true, key: "pause" }));
}

const KINDS = { 2: "ok", 3: "off", 4: "warn", 5: "bad" };

function list(content, found, place) {
  if (!found.length) return h("div", { class: "empty" }, h("p", {}, text.noMatch));
  return [
    table([
      { title: text.time, cell: (request) => h("time", { datetime: request.at, title: exactTime(request.at) }, clockTime(request.at)) },
      { title: text.method, cell: (request) => h("code", {}, request.method || "–") },
      { title: text.path, wide: true, cell: (request) => h("button", { type: "button", class: "as-link code", "aria-label": text.open(request.method, request.path), onclick: () => open(request) }, request.path || "–") },
      { title: text.status, cell: (request) => h("span", { class: `state ${KINDS[classOf(request)] || "off"}` }, request.status) },
      { title: text.took, kind: "number", cell: (request) => (request.took === undefined ? "" : duration(request.took)) },
      { title: text.size, kind: "number", cell: (request) => bytes(request.bytes || 0) },
      { title: text.client, cell: (request) => h("span", { class: "muted" }, request.client) },
    ], found.slice(0, content.shown), { label: text.title, key: ({ id }) => id }),
    found.length > content.shown && h("p", {}, button(words.showMore, () => ((content.shown += SHOWN), place.update())), h("span", { class: "muted" }, ` ${text.ofAll(content.shown, found.length)}`)),
  ];
}

function open(request) {
  return dialog(`${request.method} ${request.path}`, (finish) => [
    facts([
      [text.time, exactTime(request.at)], [text.status, request.status === 499 ? text.left : request.status], [text.took, request.took === undefined ? "" : duration(request.took)], [text.size, bytes(request.bytes || 0)],
      [text.client, request.client], [text.host, request.host], [text.agent, request.agent], [text.referer, request.referer], [text.request, request.request && h("code", {}, request.request)], [text.trace, request.trace && h("code", {}, request.trace)],
    ]),
    h("div", { class: "dialog-actions" }, button(words.close, () => finish(), { main: true })),
  ], { wide: true });
}
