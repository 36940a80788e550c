// When a job runs and with which command: a timetable, or events of its environment.

import { parseCron } from "../cron.js";
import { h, morph } from "../dom.js";
import { fieldError } from "../field_errors.js";
import { field } from "../parts.js";
import { choicesOf, cronOf, timetable, usualTimes } from "../timetable.js";
import { words } from "../words.js";
import { forms } from "../words_of_settings.js";
import { amount, differs, segments } from "./part.js";

const text = forms.schedule;
const job = words.newJob;
const EVENTS = ["on_start", "on_stop", "on_delete"];
const MISSED = ["ONCE", "SKIP"];

export const fields = ["schedule", "max_nb_restart", "max_duration_seconds"];

export function edit({ service }) {
  const known = service.schedule || {};
  const present = known.cronjob || EVENTS.map((name) => known[name]).find(Boolean) || {};
  const content = { ...(known.cronjob ? choicesOf(known.cronjob.scheduled_at || "") : usualTimes()), zone: known.cronjob?.timezone || Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC" };
  let when = known.cronjob ? "timetable" : "events";
  const set = (name) => (event) => {
    content[name] = event.target.value;
    event.target.touched = true;
    drawn = morph(drawn, timetable(content, set));
  };
  let drawn = timetable(content, set);
  const missing = h("select", {}, MISSED.map((name) => h("option", { value: name, selected: name === (known.cronjob?.missed_runs || "ONCE") }, text.misseds[name])));
  const missed = h("div", { class: "line narrow" }, field(text.missed, missing, text.missedHelp, { name: "missed_runs" }));
  const table = h("div", { "data-field": "cronjob" }, drawn, missed);
  const boxes = EVENTS.map((name) => [name, h("input", { type: "checkbox", checked: Boolean(known[name]) })]);
  const events = h("div", { class: "checks", "data-field": "events" }, boxes.map(([name, box]) => h("label", {}, box, " ", job.eventNames[name])));
  const command = h("input", { class: "code", value: present.entrypoint || "", autocomplete: "off", spellcheck: "false", placeholder: "python manage.py clear_sessions", oninput: (event) => (event.target.touched = true) });
  const given = h("textarea", { rows: 2, class: "code", spellcheck: "false", value: (present.arguments || []).join("\n"), placeholder: words.onePerLine, oninput: (event) => (event.target.touched = true) });
  const retries = amount(service.max_nb_restart ?? 0, null, { max: 100 });
  const longest = amount(service.max_duration_seconds ? service.max_duration_seconds / 60 : null, text.minutes, { min: 0, step: "any" });
  const longestField = field(text.longest, longest.input, text.longestHelp, { name: "max_duration_seconds" });
  longestField.insertBefore(longest.node, longestField.querySelector(".help"));
  longest.node.prepend(longest.input);
  const show = () => ([table.hidden, events.hidden] = [when !== "timetable", when === "timetable"]);
  show();

  const runs = () => ({ entrypoint: command.value.trim() || null, arguments: given.value.split("\n").map((line) => line.trim()).filter(Boolean) });
  const before = JSON.stringify(runs());
  // Each event may have a command of its own: it stays unless the one that is shown is changed.
  const ofEvent = (name) => (known[name] && JSON.stringify(runs()) === before ? known[name] : { ...known[name], ...runs() });
  // Of the alternatives that are left, those that were set are sent as null.
  const schedule = () => {
    const gone = Object.fromEntries(["cronjob", ...EVENTS].filter((name) => known[name]).map((name) => [name, null]));
    if (when === "timetable") {
      if (!parseCron(cronOf(content)) && !cronOf(content).startsWith("@")) throw fieldError("scheduled_at", job.noCron);
      return { ...gone, cronjob: { ...runs(), scheduled_at: cronOf(content), timezone: content.zone, missed_runs: missing.value } };
    }
    const chosen = boxes.filter(([, box]) => box.checked).map(([name]) => name);
    if (!chosen.length) throw fieldError("events", job.noEvent);
    return { ...gone, ...Object.fromEntries(chosen.map((name) => [name, ofEvent(name)])) };
  };
  const start = schedule();
  const most = () => (longest.read() ? Math.round(longest.read() * 60) : null);
  const changes = () => {
    const found = {};
    if (differs(schedule(), start)) found.schedule = schedule();
    if (retries.read() !== (service.max_nb_restart ?? 0)) found.max_nb_restart = retries.read() ?? 0;
    if (most() !== (service.max_duration_seconds || null)) found.max_duration_seconds = most();
    return found;
  };
  return {
    title: text.title, changes,
    node: h("div", {}, h("div", { "data-field": "schedule" },
      segments(text.title, [["timetable", job.timetable], ["events", job.events]], when, (value) => ((when = value), show())), table, events,
      h("h3", {}, job.what), field(text.command, command, text.commandHelp, { name: "entrypoint" }), field(text.arguments, given, "", { name: "arguments" })),
    h("div", { class: "line narrow" }, field(text.retries, retries.input, text.retriesHelp, { name: "max_nb_restart" }), longestField)),
  };
}
