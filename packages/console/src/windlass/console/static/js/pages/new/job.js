// A new job: what it runs, and when, in words and with the next times.

import { api } from "../../api.js";
import { parseCron } from "../../cron.js";
import { h, own } from "../../dom.js";
import { fieldError } from "../../field_errors.js";
import { button, field } from "../../parts.js";
import { finish } from "../../services.js";
import { segments } from "../../settings/part.js";
import { cronOf, timetable, usualTimes } from "../../timetable.js";
import { words } from "../../words.js";
import { nameOf, repositoryFields, repositoryOf } from "./repository.js";

const text = words.newJob;
const EVENTS = ["on_start", "on_stop", "on_delete"];

export async function begin(state) {
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
  const content = { from: "git", url: "", branch: "", root: "/", token: "", image: "", tag: "latest", name: state.suggested || "", command: "", when: "timetable", ...usualTimes(), zone, events: new Set(["on_start"]), retries: 0 };
  const choose = (name) => (value) => (Object.assign(content, { [name]: value, isTouched: true }), content.draw?.());
  content.fromNode = segments(text.what, [["git", text.git], ["image", text.image]], content.from, choose("from"));
  content.whenNode = segments(text.when, [["timetable", text.timetable], ["events", text.events]], content.when, choose("when"));
  return content;
}

export const isFilledIn = ({ isTouched, url, name }) => Boolean(isTouched || url || name);

export function render(state, content, place) {
  content.draw = () => place.update();
  const path = `/environment/${state.environment}/job`;
  const set = (name) => (event) => (Object.assign(content, { [name]: event.target.value, isTouched: true }), (event.target.touched = true), place.update());
  const input = (name, props = {}) => h("input", { id: `job-${name}`, value: content[name], autocomplete: "off", spellcheck: "false", oninput: set(name), ...props });
  return h("div", { key: "job" },
    h("section", { class: "panel" }, h("h2", {}, text.what),
      own(content.fromNode),
      content.from === "git" ? h("div", { key: "git" }, repositoryFields(state, content, "source.docker.git_repository"))
        : h("div", { class: "line", key: "image" }, field(text.imageName, input("image", { placeholder: "docker.io/library/alpine" }), "", { name: "source.image.image_name" }), field(text.tag, input("tag"), "", { name: "source.image.tag" })),
      field(text.command, input("command", { class: "code", placeholder: "python manage.py clear_sessions" }), text.commandHelp, { name: "schedule" }),
      h("div", { class: "line narrow" }, field(words.columns.name, input("name", { placeholder: content.url ? nameOf(content.url, content.root) : "nightly" }), "", { name: "name" }))),
    h("section", { class: "panel" }, h("h2", {}, text.when),
      own(content.whenNode),
      content.when === "timetable" ? timetable(content, set) : events(content, place)),
    h("div", { class: "actions" }, button(words.newService.createOnly, () => create(content, place, path, false), { needs: ["POST", path] }), button(words.newService.create, () => create(content, place, path, true), { main: true, icon: "rocket", needs: [["POST", path], ["POST", "/job/x/deploy"]] })));
}

function events(content, place) {
  const toggle = (name) => ({ target }) => (content.events[target.checked ? "add" : "delete"](name), place.update());
  return h("div", { key: "events", class: "checks", "data-field": "schedule.events" }, EVENTS.map((name) => h("label", {}, h("input", { type: "checkbox", checked: content.events.has(name), onchange: toggle(name) }), " ", text.eventNames[name])));
}

async function create(content, place, path, thenDeploy) {
  const { from, image, tag, command, when, zone, url, root } = content;
  const runs = command.trim() ? { entrypoint: command.trim() } : {};
  if (when === "timetable" && !parseCron(cronOf(content))) throw fieldError("scheduled_at", text.noCron);
  const schedule = when === "timetable" ? { cronjob: { ...runs, scheduled_at: cronOf(content), timezone: zone } } : Object.fromEntries([...content.events].map((name) => [name, runs]));
  if (when === "events" && !content.events.size) throw fieldError("schedule.events", text.noEvent);
  const source = from === "git" ? { docker: { git_repository: repositoryOf(content) } } : { image: { image_name: image.trim(), tag: tag.trim() } };
  const { id } = await api.post(path, { name: content.name.trim() || (url ? nameOf(url, root) : ""), source, schedule });
  return finish(place, `/job/${id}`, { thenDeploy });
}
