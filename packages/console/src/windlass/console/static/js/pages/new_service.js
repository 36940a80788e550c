// A new service: its kind, the environment in which it will be, and the page of its kind.

import { api } from "../api.js";
import { h } from "../dom.js";
import { loadDocument } from "../document.js";
import { hold } from "../edits.js";
import { familyOf } from "../families.js";
import { kindIcon } from "../icons.js";
import { button, empty, field, head } from "../parts.js";
import { refusalOf } from "../rights.js";
import { newServiceOf } from "../routes.js";
import { words } from "../words.js";

const text = words.newService;
const FIRST = "application";

export async function load({ org, query }) {
  const base = `/organization/${org.id}`;
  const [projects, document, tokens] = await Promise.all([api.all(`${base}/project`), loadDocument(), api.seen(`${base}/gitToken`, api.all)]);
  const lists = await Promise.all(projects.map((project) => api.all(`/project/${project.id}/environment`)));
  const environments = projects.flatMap((project, index) => lists[index].map((environment) => ({ ...environment, project })));
  const kinds = document.listsBelow("/environment/x").filter((list) => document.isDeployable(list)).map(familyOf);
  // What an address names is taken only where it is offered.
  const kind = kinds.find((name) => name === query.get("kind")) || FIRST;
  const { id: environment = "" } = environments.find(({ id }) => id === query.get("environment")) || environments[0] || {};
  const state = { base, projects, environments, document, tokens: tokens || [], kinds, kind, environment, title: text.title, suggested: query.get("name") || undefined, begun: {} };
  state.makeEnvironment = () => makeEnvironment(state);
  await begin(state, query);
  return state;
}

// What is filled in for one kind stays while another one is looked at.
async function begin(state, query) {
  if (state.begun[state.kind]) return;
  const inner = await newServiceOf(state.kind);
  state.begun[state.kind] = { inner, content: await inner.begin(state, query) };
}

export const watch = (state) => void hold({ node: document.getElementById("app"), changes: () => (Object.values(state.begun).some(({ inner, content }) => inner.isFilledIn(content)) ? state : {}) });

async function choose(state, place, kind) {
  state.kind = kind;
  await begin(state, place.query);
  place.update();
}

export function render(state, place) {
  const { kind, begun, environments } = state;
  const refusal = refusalOf(["POST", `/environment/x/${kind}`]);
  return [
    head(text.title, { about: kind === FIRST ? text.about : "" }),
    refusal && h("p", { class: "message trouble", role: "status" }, refusal),
    h("div", { class: "kinds", role: "group", "aria-label": text.what }, state.kinds.map((name) =>
      h("button", { type: "button", class: "kind-choice", key: name, "aria-pressed": String(kind === name), onclick: () => choose(state, place, name) }, kindIcon(name), text.kinds[name] || words.readable(name)))),
    h("div", { class: "narrow-page" },
      where(state, place),
      (environments.length || kind === FIRST) && begun[kind].inner.render(state, begun[kind].content, place)),
  ];
}

function where(state, place) {
  if (!state.environments.length && state.kind === FIRST) return field(words.environment, h("input", { value: `${state.projects[0]?.name || text.firstProject} / ${text.firstEnvironment}`, readonly: true, id: "where" }), text.madeWithIt);
  if (!state.environments.length) return empty(text.noEnvironment, button(text.makeEnvironment, async () => (await makeEnvironment(state), place.update()), { main: true, needs: ["POST", `${state.base}/project`] }));
  return h("div", { key: "where" }, field(words.environment,
    h("select", { id: "where", onchange: (event) => ((state.environment = event.target.value), place.update()) }, state.environments.map((environment) => h("option", { value: environment.id, selected: environment.id === state.environment }, `${environment.project.name} / ${environment.name}`)))));
}

async function makeEnvironment(state) {
  const project = state.projects[0] || (await api.post(`${state.base}/project`, { name: text.firstProject }));
  state.projects = [project];
  const environment = await api.post(`/project/${project.id}/environment`, { name: text.firstEnvironment, mode: "PRODUCTION" });
  Object.assign(state, { environments: [{ ...environment, project }], environment: environment.id });
}
