// The audit: who did what, when and from where, with filters and what changed.

import { api } from "../api.js";
import { h } from "../dom.js";
import { loadDocument } from "../document.js";
import { ago, fieldTime, title } from "../format.js";
import { button, empty, head } from "../parts.js";
import { words } from "../words.js";

const text = words.audit;
const PAGE = 50;
const TEXTS = ["triggeredBy"];
const FILTERS = ["eventType", "targetType", "origin"];

export async function load({ params, query }) {
  const state = { path: `/organization/${params.organization}/events`, query: Object.fromEntries(query), title: text.title };
  await read(state);
  state.refreshing = { refresh: () => readNewest(state) };
  state.document = await loadDocument();
  state.operation = state.document.at("GET", state.path);
  return state;
}

async function read(state, more, keepsNext) {
  const answer = await api.get(state.path, { ...state.query, pageSize: PAGE, ...(more ? { continueToken: new URL(state.next).searchParams.get("continueToken") } : {}) });
  state.events = more ? [...state.events, ...answer.events] : answer.events;
  if (!keepsNext) state.next = answer.links.next;
}

// Older events that were asked for stay.
async function readNewest(state) {
  const known = state.events;
  await read(state, false, known.length > PAGE);
  const fresh = new Set(state.events.map((event) => event.id));
  if (known.some((event) => fresh.has(event.id))) state.events = [...state.events, ...known.filter((event) => !fresh.has(event.id))];
}

export function render(state, place) {
  const change = (name) => async (event) => {
    state.query[name] = event.target.value;
    history.replaceState({}, "", `?${new URLSearchParams(Object.entries(state.query).filter(([, value]) => value))}`);
    await read(state);
    place.update();
  };
  const options = (name) => state.document.resolve(state.operation.parameters.find((parameter) => parameter.name === name)?.schema || {}).enum || [];
  return [
    head(text.title, { about: text.about }),
    h("div", { class: "tools" },
      TEXTS.map((name) => h("input", { type: "search", placeholder: text.filters[name], "aria-label": text.filters[name], value: state.query[name] || "", onchange: change(name) })),
      FILTERS.map((name) => h("select", { "aria-label": text.filters[name], onchange: change(name) }, h("option", { value: "" }, text.filters[name]), choicesOf(options(name), state.query[name]))),
      ["fromTimestamp", "toTimestamp"].map((name) => h("label", { class: "inline" }, text.filters[name], h("input", { type: "datetime-local", value: fieldTime(state.query[name]), onchange: (event) => change(name)({ target: { value: event.target.value && new Date(event.target.value).toISOString() } }) })))),
    eventList(state.events, text.empty),
    state.next && button(words.showMore, async () => (await read(state, true), place.update())),
  ];
}

// Events with words of their own come first: the others are kept for other clients.
function choicesOf(options, present) {
  const choices = options.filter(Boolean).map((option) => [option, nameOf(option)]).sort(([, one], [, other]) => one.localeCompare(other));
  const draw = (some) => some.map(([option, name]) => h("option", { value: option, selected: present === option }, name));
  const known = choices.filter(([option]) => option in words.events);
  if (!known.length) return draw(choices);
  return [draw(known), h("optgroup", { label: text.others }, draw(choices.filter((choice) => !known.includes(choice))))];
}

// Names of events, such as `DEPLOYED`, are also states: here they mean what happened.
const nameOf = (option) => words.origins[option] || title(option.toLowerCase());

const ABOUT_ONESELF = ["SIGN_IN", "SIGN_OUT", "SESSION_ENDED"];

/** Events in a list; `none` is said where there is no event. */
export function eventList(events, none = text.none) {
  if (!events.length) return empty(none);
  return h("ol", { class: "events" }, events.map((event) => h("li", { key: event.id },
    h("div", { class: "event-line" },
      h("strong", {}, event.triggered_by || "–"), " ", words.events[event.event_type] || words.readable(event.event_type).toLowerCase(), " ",
      !ABOUT_ONESELF.includes(event.event_type) && [h("span", {}, words.readable(event.sub_target_type || event.target_type).toLowerCase()), " ", h("strong", {}, event.target_name)],
      h("span", { class: "muted" }, [event.project_name, event.environment_name].filter(Boolean).join(" / "))),
    h("div", { class: "muted" }, ago(event.timestamp), ` · ${words.origins[event.origin] || words.readable(event.origin)}`, event.address && ` · ${event.address}`),
    changes(event))));
}

function changes({ event_type: event, change, original_change: original }) {
  const after = flat(parse(change));
  const before = flat(parse(original));
  if (!after && !before) return null;
  if (event !== "CREATE" && event !== "UPDATE" && event !== "DELETE") return null;
  const names = [...new Set([...Object.keys(before || {}), ...Object.keys(after || {})])].filter((name) => !["id", "created_at", "updated_at", "event"].includes(name) && (!before || !after || JSON.stringify(before[name]) !== JSON.stringify(after[name])));
  if (!names.length) return null;
  return h("details", {}, h("summary", {}, text.changed(names.length)), h("ul", { class: "diff" }, names.map((name) => h("li", {}, h("code", { class: "key" }, name), " ", before && name in before && h("del", {}, show(before[name])), " ", after && name in after && h("ins", {}, show(after[name]))))));
}

// Fields of a part have names with a dot, so that only those that changed are shown.
function flat(data, above = "") {
  return data && Object.fromEntries(Object.entries(data).flatMap(([name, value]) =>
    value && typeof value === "object" && !Array.isArray(value) && Object.keys(value).length ? Object.entries(flat(value, `${above}${name}.`)) : [[`${above}${name}`, value]]));
}

const show = (value) => (typeof value === "string" ? value || "\u201c\u201d" : JSON.stringify(value));

function parse(value) {
  try {
    const data = JSON.parse(value);
    return data && typeof data === "object" ? data : null;
  } catch {
    return null;
  }
}
