// The dialog for the hours in which an environment runs. Outside of them, its services are stopped.

import { api } from "./api.js";
import { changeRule } from "./deployment_rule.js";
import { h } from "./dom.js";
import { button, dialog, field, say, showError } from "./parts.js";
import { words } from "./words.js";
import { runningHours as text } from "./words_of_environments.js";

const DAYS = ["MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY", "SUNDAY"];
const momentOf = (time) => `1970-01-01T${time}:00.000Z`;
const timeOf = (moment) => moment.slice(11, 16);

export async function editHours(path) {
  const rule = await api.get(`${path}/deploymentRule`);
  const here = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
  const zone = h("select", {}, [...new Set([rule.auto_stop ? rule.timezone : here, "UTC", ...(Intl.supportedValuesOf?.("timeZone") || [])])].map((name) => h("option", {}, name)));
  const on = h("input", { type: "checkbox", role: "switch", checked: rule.auto_stop });
  const start = h("input", { type: "time", required: true, value: timeOf(rule.start_time) });
  const stop = h("input", { type: "time", required: true, value: timeOf(rule.stop_time) });
  const chosen = rule.auto_stop ? rule.weekdays : DAYS.slice(0, 5);
  const days = DAYS.map((name) => [name, h("input", { type: "checkbox", checked: chosen.includes(name) })]);
  const choices = h("div", {},
    h("fieldset", { class: "field" }, h("legend", { class: "field-title" }, text.days), h("div", { class: "choices" }, days.map(([name, box]) => h("label", {}, box, " ", text.dayNames[name])))),
    field(text.start, start, null, { name: "start_time" }), field(text.stop, stop, text.stopHelp, { name: "stop_time" }), field(text.zone, zone, null, { name: "timezone" }));
  const show = () => (choices.hidden = !on.checked);
  on.addEventListener("change", show);
  show();
  const save = async (finish) => {
    const weekdays = days.filter(([, box]) => box.checked).map(([name]) => name);
    const hours = on.checked ? { timezone: zone.value, start_time: momentOf(start.value), stop_time: momentOf(stop.value), weekdays } : {};
    try {
      await changeRule(`${path}/deploymentRule`, { ...hours, auto_stop: on.checked });
      finish(true);
    } catch (error) {
      showError(error);
    }
  };
  const saved = await dialog(text.title, (finish) => [
    h("p", {}, text.about), field(text.on, on, text.onHelp, { isSwitch: true, name: "auto_stop" }), choices,
    h("div", { class: "dialog-actions" }, button(words.cancel, () => finish()), button(words.save, () => save(finish), { main: true })),
  ]);
  if (saved) say(on.checked ? text.saved(start.value, stop.value, zone.value) : text.savedOff);
}
