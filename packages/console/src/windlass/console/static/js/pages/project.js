// A project: its environments, and what is shared by all of them.

import { api } from "../api.js";
import { h, prose } from "../dom.js";
import { loadDocument } from "../document.js";
import { familyCards } from "../families.js";
import { refreshOnEvents } from "../live.js";
import { button, dialog, empty, head, link, field, menu, say, stale, table, showError, confirm } from "../parts.js";
import { previewOf } from "../previews.js";
import { cards } from "../settings/part.js";
import { crumbs } from "../shell.js";
import { byUrgency, dot, serviceKind } from "../states.js";
import { words } from "../words.js";
import { environmentTexts } from "../words_of_environments.js";

const text = words.projectPage;

export async function load(place) {
  const { params, org } = place;
  const path = `/project/${params.project}`;
  const state = { path, isLive: true };
  state.read = async () => {
    const [project, environments, services] = await Promise.all([api.get(path), api.all(`${path}/environment`), api.all(`/organization/${org.id}/services`, { project_id: params.project })]);
    Object.assign(state, { project, environments, services, title: project.name });
  };
  [state.document] = await Promise.all([loadDocument(), state.read()]);
  place.belongsTo(state.project.organization);
  return state;
}

export const watch = (state, place, draw) => refreshOnEvents(`/organization/${place.org.id}/events/stream`, state, place, draw, {
  fromNow: true, isRelevant: (event) => event.project_id === undefined || event.project_id === null || event.project_id === state.project.id });

export function render(state, place) {
  const { document, project, environments, services, path } = state;
  const of = (environment) => byUrgency(services.filter((service) => service.environment_id === environment.id));
  return [
    crumbs([words.places.overview, "/"], [project.name]),
    head(project.name, {
      about: project.description ? prose(project.description) : text.about,
      actions: [link(`${path}/variables`, h("span", { class: "button" }, words.tabs.variables)), button(text.newEnvironment, () => create(state, place), { main: true, needs: ["POST", `${path}/environment`] }),
        menu(words.more, [button(words.remove.button, () => remove(place, path, project), { danger: true, plain: true, needs: ["DELETE", path] })])],
    }),
    stale(state),
    environments.length ? table([
      { title: words.columns.name, cell: (environment) => [link(`/environment/${environment.id}`, environment.name), previewOf(environment)] },
      { title: text.mode, cell: (environment) => words.readable(environment.mode) },
      { title: words.columns.services, cell: (environment) => h("span", { class: "dots" }, of(environment).slice(0, 40).map((service) => dot(serviceKind(service), service.name)), of(environment).length === 0 && h("span", { class: "muted" }, text.none)) },
      { title: words.columns.cluster, cell: (environment) => h("span", { class: "muted" }, environment.cluster_name) },
    ], environments, { to: (environment) => `/environment/${environment.id}`, label: text.environments }) : empty(text.empty, button(text.newEnvironment, () => create(state, place), { main: true, needs: ["POST", `${path}/environment`] }), `windlass environment create --project ${project.name} --name production`),
    familyCards(document, path),
  ];
}

const MODES = ["PRODUCTION", "STAGING", "DEVELOPMENT"];

async function create({ path, environments: present }, place) {
  let mode = present.length ? "STAGING" : "PRODUCTION";
  const name = h("input", { autocomplete: "off", spellcheck: "false", placeholder: environmentTexts.nameExample });
  const kinds = cards(environmentTexts.mode, MODES.map((one) => [one, words.readable(one), environmentTexts.modes[one]]), mode, (one) => (mode = one));
  const run = async (finish) => {
    try {
      finish(await api.post(`${path}/environment`, { name: name.value.trim() || undefined, mode }));
    } catch (error) {
      showError(error);
    }
  };
  const made = await dialog(text.newEnvironment, (finish) => [
    field(words.columns.name, name, "", { name: "name" }), h("h3", {}, environmentTexts.mode), kinds, h("p", { class: "help" }, environmentTexts.modeHelp),
    h("div", { class: "dialog-actions" }, button(words.cancel, () => finish()), button(words.create, () => run(finish), { main: true }))], { wide: true });
  if (made) place.go(`/environment/${made.id}`);
}

async function remove(place, path, project) {
  if (!(await confirm(words.remove.title(project.name), text.removeWill, { action: words.remove.button, danger: true, name: project.name }))) return;
  await api.delete(path);
  say(words.remove.done(project.name));
  await place.go("/");
}
