// The states of services and deployments: an icon, a word and a kind for each, so that colour never stands alone.

import { h } from "./dom.js";
import { icon } from "./icons.js";
import { words } from "./words.js";

const ICONS = { ok: "circle-check", busy: "loader-circle", off: "circle-dashed", warn: "triangle-alert", bad: "circle-x", wait: "clock" };

/** The icon of a kind of state. */
export const stateIcon = (kind) => icon(ICONS[kind], "glyph");
const OFF = new Set(["STOPPED", "SLEEPING", "READY", "CANCELED", "SUPERSEDED", "DELETED"]);
const OK = new Set(["RUNNING", "DEPLOYED", "RESTARTED", "SUCCEEDED", "COMPLETED", "UP_TO_DATE", "DELIVERED", "SUCCESS", "OK"]);

/** The state of a service as people see it: one that sleeps is STOPPED for programs. */
export const seenState = ({ state, sleeping }) => (sleeping && state === "STOPPED" ? "SLEEPING" : state);

/** The kind of a state: ok, busy, off, warn, bad or wait. */
export function kindOf(state, { instances = 0, ready = instances } = {}) {
  if (!state) return "off";
  if (state.includes("ERROR") || state === "FAILED" || state === "UNAVAILABLE") return "bad";
  if (state.includes("QUEUED") || state.startsWith("WAITING")) return "wait";
  if (OK.has(state)) return ready < instances ? "warn" : "ok";
  return state.endsWith("ING") && !OFF.has(state) ? "busy" : "off";
}

export const isBusy = (state) => ["busy", "wait"].includes(kindOf(state));

const MANY_ERRORS = 0.5;

/** The kind of a service in a list. One that runs but has no port, or answers most requests with errors, needs attention, too. */
export function serviceKind(service) {
  const kind = kindOf(service.state, { instances: service.instances, ready: service.ready_instances });
  if (kind === "ok" && service.only_planned) return "off";
  return kind === "ok" && (service.lacks_port || hasManyErrors(service)) ? "warn" : kind;
}

/** Icon and word of a service in a list. */
export const serviceBadge = (service) => service.only_planned && service.state === "RUNNING" ? plannedBadge() : badge(seenState(service), serviceKind(service), service.service_type, service.lacks_port && words.states.UNREACHED);

/** Icon and word of a service of which nothing was applied yet. */
export const plannedBadge = () => h("span", { class: "state off" }, stateIcon("off"), words.kinds.TERRAFORM.planned);

/** Whether Windlass was to choose the port of a running service, and found none, so that nothing reaches it. */
export const lacksPort = ({ automatic_port: isAutomatic, ports, process }, state) => OK.has(state) && isAutomatic && !ports?.length && !process;

export const hasManyErrors = ({ error_share: share }) => share >= MANY_ERRORS;

/** The word for the state of a service, or of anything else that has a state. */
export const stateOf = ({ state, sleeping, service_type: type = "", only_planned: isPlanned = false }) => {
  if (isPlanned && state === "RUNNING") return words.kinds.TERRAFORM.planned;
  const seen = seenState({ state, sleeping });
  return words.kinds[type]?.states[seen] || words.states[seen] || words.readable(seen).toLowerCase();
};

/** Icon and word. `type` is the kind of a service, where its states have words of their own; `kind` may say more than the state alone, and `warning` is its word then. */
export function badge(state, kind = kindOf(state), type = "", warning = "") {
  const word = kind === "warn" && OK.has(state) ? warning || words.states.DEGRADED : stateOf({ state, service_type: type });
  return h("span", { class: `state ${kind}` }, stateIcon(kind), word);
}

export function dot(kind, label) {
  return h("span", { class: `dot ${kind}`, role: "img", "aria-label": label, title: label }, stateIcon(kind));
}

/** A label for a service that runs with other settings or variables than it has now: a deployment would change it. */
export const changedTag = ({ state, service_deployment_status: freshness }) => OK.has(state) && freshness === "OUT_OF_DATE" && h("span", { class: "tag", title: words.changedAbout }, words.changed);

const URGENCY = { bad: 0, warn: 1, busy: 2, wait: 3, ok: 4, off: 5 };

let collator; // made when there is something to order: it costs milliseconds

/** The first services in order: what needs attention first, then by name. */
export function byUrgency(services, most = Infinity) {
  const { compare } = (collator ||= new Intl.Collator(undefined, { numeric: true }));
  const groups = Object.values(URGENCY).map(() => []);
  for (const service of services) groups[URGENCY[serviceKind(service)]].push(service);
  const first = [];
  for (const group of groups) first.push(...firstOf(group, most - first.length, (one, other) => compare(one.name, other.name)));
  return first;
}

// Of ten thousand rows, a hundred are drawn: to order all would take longer than to draw them.
function firstOf(rows, most, compare) {
  if (rows.length <= most) return rows.sort(compare);
  const first = [];
  for (const row of most > 0 ? rows : []) {
    if (first.length === most && compare(row, first.at(-1)) >= 0) continue;
    let [from, to] = [0, first.length];
    while (from < to) {
      const middle = (from + to) >> 1;
      if (compare(first[middle], row) <= 0) from = middle + 1;
      else to = middle;
    }
    first.splice(from, 0, row);
    if (first.length > most) first.pop();
  }
  return first;
}
