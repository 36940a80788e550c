// A timetable in choices: how often, at what time, in which zone, with the next times. It is kept as five fields of cron.

import { nextTimes, parseCron } from "./cron.js";
import { h } from "./dom.js";
import { wallTime } from "./format.js";
import { field } from "./parts.js";
import { words } from "./words.js";

const text = words.newJob;
const COUNT = 5;
const OWN = "own";
const WEEKDAYS = [1, 2, 3, 4, 5, 6, 0];
const STEPS = [5, 10, 15, 20, 30];
const NAMED = { "@hourly": "0 * * * *", "@daily": "0 0 * * *", "@weekly": "0 0 * * 0", "@monthly": "0 0 1 * *" };

/** The choices of a new timetable. */
export const usualTimes = () => ({ every: "day", at: "02:30", minutes: 15, weekday: 1, day: 1, cron: "" });

/** The five fields of what was chosen. */
export function cronOf({ every, at, minutes, weekday, day, cron }) {
  const [hour, minute] = at.split(":").map(Number);
  return { minutes: `*/${minutes} * * * *`, hour: `${minute} * * * *`, day: `${minute} ${hour} * * *`, week: `${minute} ${hour} * * ${weekday}`, month: `${minute} ${hour} ${day} * *`, [OWN]: cron.trim() }[every];
}

/** The choices that stand for five fields; those of a usual kind, or the fields themselves. */
export function choicesOf(expression) {
  const [minute, hour, day, month, weekday] = (NAMED[expression] || expression).trim().split(/\s+/);
  const isNumber = (...parts) => parts.every((part) => /^\d{1,2}$/.test(part));
  const usual = { ...usualTimes(), cron: expression };
  const at = isNumber(minute) ? `${(isNumber(hour) ? hour : "0").padStart(2, "0")}:${minute.padStart(2, "0")}` : usual.at;
  const is = (...rest) => rest.every(([part, wanted]) => part === wanted);
  if (STEPS.some((step) => minute === `*/${step}`) && is([hour, "*"], [day, "*"], [month, "*"], [weekday, "*"])) return { ...usual, every: "minutes", minutes: Number(minute.slice(2)) };
  if (!isNumber(minute) || month !== "*") return { ...usual, every: OWN };
  if (is([hour, "*"], [day, "*"], [weekday, "*"])) return { ...usual, every: "hour", at };
  if (!isNumber(hour)) return { ...usual, every: OWN };
  if (is([day, "*"], [weekday, "*"])) return { ...usual, every: "day", at };
  if (day === "*" && /^[0-6]$/.test(weekday)) return { ...usual, every: "week", at, weekday: Number(weekday) };
  if (isNumber(day) && Number(day) <= 28 && weekday === "*") return { ...usual, every: "month", at, day: Number(day) };
  return { ...usual, every: OWN };
}

/** Draws the choices. `set(name)` makes the handler of a control; `name` of errors: where the API names the expression. */
export function timetable(content, set, { cron = "scheduled_at", zone = "timezone" } = {}) {
  const { every } = content;
  const select = (name, options) => h("select", { id: `job-${name}`, onchange: set(name) }, options.map(([value, shown]) => h("option", { value, selected: String(value) === String(content[name]) }, shown)));
  const input = (name, props = {}) => h("input", { id: `job-${name}`, value: content[name], autocomplete: "off", spellcheck: "false", oninput: set(name), ...props });
  const hasTime = ["day", "week", "month"].includes(every);
  return h("div", { key: "timetable" },
    h("div", { class: "line" },
      field(text.every, select("every", Object.entries(text.everies)), "", { name: "every" }),
      every === "minutes" && h("div", { key: "minutes" }, field(text.minutes, select("minutes", STEPS.map((value) => [value, text.ofMinutes(value)])))),
      every === "week" && h("div", { key: "weekday" }, field(text.weekday, select("weekday", WEEKDAYS.map((value) => [value, text.weekdays[value]])))),
      every === "month" && h("div", { key: "day" }, field(text.day, input("day", { type: "number", min: 1, max: 28 }), text.dayHelp)),
      hasTime && h("div", { key: "at" }, field(text.at, input("at", { type: "time" }))),
      every === OWN && h("div", { key: "cron" }, field(text.cron, input("cron", { class: "code", placeholder: "30 2 * * mon-fri" }), text.cronHelp, { name: cron })),
      field(text.zone, select("zone", zones(content.zone).map((name) => [name, name])), "", { name: zone })),
    next(content));
}

const zones = (zone) => [...new Set([zone, "UTC", ...(Intl.supportedValuesOf?.("timeZone") || [])])];

// The next times, by the clock of the zone.
function next(content) {
  const expression = cronOf(content);
  const cron = parseCron(expression);
  if (!cron) return h("p", { class: "muted", role: "status" }, content.cron ? text.noCron : text.cronHelp);
  const times = nextTimes(cron, content.zone, COUNT);
  return h("div", { class: "next-times", role: "status" },
    h("p", {}, h("strong", {}, text.inWords(content)), h("span", { class: "muted" }, " ", h("code", {}, expression))),
    times.length ? h("ol", { class: "plain" }, times.map((at) => h("li", {}, wallTime(at)))) : h("p", { class: "muted" }, text.never));
}
