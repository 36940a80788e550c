// The states of services and deployments: a glyph, a word and a kind for each, so that colour never stands alone.

import { h } from "./dom.js";
import { words } from "./words.js";

const GLYPHS = { ok: "●", busy: "◐", off: "○", warn: "▲", bad: "✕", wait: "‖" };
const OFF = new Set(["STOPPED", "READY", "CANCELED", "SUPERSEDED", "DELETED"]);
const OK = new Set(["RUNNING", "DEPLOYED", "RESTARTED", "SUCCEEDED", "COMPLETED", "UP_TO_DATE", "DELIVERED", "SUCCESS", "OK"]);

/** The kind of a state: ok, busy, off, warn, bad or wait. */
export function kindOf(state, { instances = 0, ready = instances } = {}) {
  if (!state) return "off";
  if (state.includes("ERROR") || state === "FAILED" || state === "UNAVAILABLE") return "bad";
  if (state.includes("QUEUED") || state.startsWith("WAITING")) return "wait";
  if (OK.has(state)) return ready < instances ? "warn" : "ok";
  return state.endsWith("ING") && !OFF.has(state) ? "busy" : "off";
}

export const isBusy = (state) => ["busy", "wait"].includes(kindOf(state));

/** The kind of a service in a list. */
export function serviceKind(service) {
  return kindOf(service.state, { instances: service.instances, ready: service.ready_instances });
}

/** Glyph and word. `kind` may say more than the state alone. */
export function badge(state, kind = kindOf(state)) {
  const word = kind === "warn" && OK.has(state) ? words.states.DEGRADED : words.states[state] || words.readable(state);
  return h("span", { class: `state ${kind}` }, h("span", { class: "glyph", "aria-hidden": "true" }, GLYPHS[kind]), word);
}

export function dot(kind, label) {
  return h("span", { class: `dot ${kind}`, role: "img", "aria-label": label, title: label }, GLYPHS[kind]);
}

const URGENCY = { bad: 0, warn: 1, busy: 2, wait: 3, ok: 4, off: 5 };

let collator; // made when there is something to order: it costs milliseconds

/** Orders services: what needs attention first, then by name. */
export function byUrgency(services) {
  const { compare } = (collator ||= new Intl.Collator(undefined, { numeric: true }));
  const groups = new Map(Object.values(URGENCY).map((urgency) => [urgency, []]));
  for (const service of services) groups.get(URGENCY[serviceKind(service)]).push(service);
  return [...groups.values()].flatMap((group) => group.sort((one, other) => compare(one.name, other.name)));
}
