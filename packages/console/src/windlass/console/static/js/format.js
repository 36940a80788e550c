// Times, durations and amounts, as people read them.

import { now } from "./clock.js";
import { words } from "./words.js";
import { h } from "./dom.js";

// A form is made when it is first used: each costs milliseconds, and the first page needs few of them.
const lazily = (make) => {
  let form;
  return (value) => (form ||= make()).format(value);
};
const timeForm = (options) => lazily(() => new Intl.DateTimeFormat(undefined, options));
const exact = timeForm({ dateStyle: "medium", timeStyle: "long" });
const clock = timeForm({ hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });
const day = timeForm({ day: "numeric", month: "short" });
const dayOfYear = timeForm({ day: "numeric", month: "short", year: "numeric" });
const dayClock = timeForm({ weekday: "short", day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", hour12: false });

export const number = lazily(() => new Intl.NumberFormat());
export const exactTime = (text) => exact(new Date(text));
export const dayTime = (text) => dayClock(new Date(text));
export const wallTime = lazily(() => new Intl.DateTimeFormat(undefined, { weekday: "short", day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit", hour12: false, timeZone: "UTC" })); // of a date that a zone's clock shows
export const clockTime = (text) => clock(new Date(text));

/** How long ago, as a node with the exact time on hover. It is kept up to date. */
export function ago(text, { none = "" } = {}) {
  if (!text) return none;
  return h("time", { datetime: text, title: exactTime(text), class: "ago" }, agoText(text));
}

function agoText(text) {
  const then = new Date(text);
  const seconds = (now() - then) / 1000;
  if (seconds < -5) return words.time.in(duration(-seconds * 1000));
  if (seconds < 10) return words.time.now;
  if (seconds < 7 * 86400) return words.time.ago(duration(seconds * 1000, true));
  return (then.getFullYear() === new Date().getFullYear() ? day : dayOfYear)(then);
}

setInterval(() => {
  for (const node of document.querySelectorAll("time.ago")) {
    const text = agoText(node.dateTime);
    if (node.textContent !== text) node.textContent = text;
  }
}, 5000);

/** A moment as a field of the browser writes it: in the zone of the reader, without its name. */
export function fieldTime(moment) {
  const at = new Date(moment || NaN);
  return isNaN(at) ? "" : new Date(at - at.getTimezoneOffset() * 60000).toISOString().slice(0, 16);
}

/** A length of time with at most two units; one if `short`. */
export function duration(milliseconds, short = false) {
  if (milliseconds < 1000) return `${Math.max(0, Math.round(milliseconds))} ms`;
  if (milliseconds < 10000 && !short) return `${(milliseconds / 1000).toFixed(1)} s`;
  let rest = Math.floor(milliseconds / 1000);
  const parts = [];
  for (const [unit, size] of [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]]) {
    if (rest >= size || (unit === "s" && !parts.length)) parts.push(`${Math.floor(rest / size)} ${unit}`);
    rest %= size;
  }
  return parts.slice(0, short ? 1 : 2).join(" ");
}

export function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit++;
  }
  return `${value < 10 && unit ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
}

const PARTS = { 250: "¼", 500: "½", 750: "¾" };

/** Thousandths of a processor, and MB of memory, as people say them. */
export const amountOf = {
  cpu: (value) => `${PARTS[value] || value / 1000} CPU`,
  memory: (value) => (value >= 1024 && value % 512 === 0 ? `${value / 1024} GB` : `${value} MB`),
};

/** `last_deployment_date` as "Last deployment date". */
export function title(name) {
  if (words.fields[name]) return words.fields[name];
  if (name.includes(".")) return name.split(".").map(title).join(" › ");
  const text = name.replace(/([a-z])([A-Z])/g, "$1 $2").replace(/[_-]/g, " ").toLowerCase().trim();
  const shown = text.replace(/\b(url|id|cpu|gpu|api|http|tcp|udp|ip)\b/g, (word) => word.toUpperCase()).replace(/\bids\b/, "IDs");
  return shown.charAt(0).toUpperCase() + shown.slice(1);
}
