// An environment: its services in rows or as a graph of their dependencies, and actions on all of them.

import { api } from "../api.js";
import { h, prose, saveFile } from "../dom.js";
import { ago } from "../format.js";
import { loadDocument } from "../document.js";
import { familyCards } from "../families.js";
import { serviceIcon } from "../icons.js";
import { refreshOnEvents } from "../live.js";
import { button, confirm, copyButton, empty, head, link, linkButton, menu, outside, say, stale, table } from "../parts.js";
import { previewOf } from "../previews.js";
import { pathOf } from "../services.js";
import { crumbs, siblings } from "../shell.js";
import { byUrgency, changedTag, serviceBadge, serviceKind } from "../states.js";
import { words } from "../words.js";
import { graph, readUses } from "./graph.js";
import { usageColumns, watchUsage } from "./usage.js";

const text = words.environmentPage;
const AT_ONCE = 100;
const FIRST = 30; // drawn with the page; the others follow, so many in a task of their own
const IN_GRAPH = 300;

export async function load(place) {
  const { params, org } = place;
  const path = `/environment/${params.environment}`;
  const state = { path, isLive: true, chosen: new Set(), asGraph: false, search: "", most: history.state?.top ? AT_ONCE : FIRST }; // Who comes back finds the place again.
  state.read = async () => {
    const [environment, services, statuses] = await Promise.all([api.get(path), api.all(`/organization/${org.id}/services`, { environment_id: params.environment }), api.seen(`${path}/statuses`)]);
    Object.assign(state, { environment, services, statuses: new Map(Object.values(statuses || {}).flat().map((status) => [status.id, status])) });
  };
  [state.document] = await Promise.all([loadDocument(), state.read()]);
  place.belongsTo(state.environment.organization);
  const projectPath = `/project/${state.environment.project.id}`;
  const [project, environments] = await Promise.all([api.seen(projectPath), api.seen(`${projectPath}/environment`, api.all)]);
  return Object.assign(state, { project, title: state.environment.name, siblings: (environments || []).map(({ id }) => `/environment/${id}`) });
}

export function watch(state, place, draw) {
  refreshOnEvents(`${state.path}/status/stream`, state, place, draw);
  drawOn(state, place, draw);
  watchUsage(state, place, draw);
}

function drawOn(state, place, draw) {
  if (state.most >= AT_ONCE) return;
  const timer = setTimeout(() => {
    const isMore = state.services.length > state.most;
    state.most = Math.min(AT_ONCE, state.most + FIRST);
    if (isMore) draw();
    drawOn(state, place, draw);
  });
  place.onStop(() => clearTimeout(timer));
}

export function render(state, place) {
  const { environment, project, services, path, chosen } = state;
  const rows = services.filter((service) => service.name.toLowerCase().includes(state.search.toLowerCase()));
  const count = chosen.size;
  return [
    crumbs(project && [project.name, `/project/${project.id}`], [environment.name]), siblings(state.siblings, path),
    head(environment.name, {
      about: [answer(services), previewOf(environment)],
      actions: [
        link(`${path}/deployments`, h("span", { class: "button" }, words.tabs.deployments)),
        link(`${path}/variables`, h("span", { class: "button" }, words.tabs.variables)),
        linkButton(place, `/new?environment=${environment.id}`, words.places.new, { needs: ["POST", `${path}/application`] }),
        services.length > 0 && (count ? button(text.deployChosen(count), () => chosenDo(state, place, "deploy"), { main: true, needs: ["POST", `${path}/service/deploy`] }) : button(text.deployAll, () => deployAll(state, place), { main: true, needs: ["POST", `${path}/deploy`] })),
        menu(words.more, [
          count > 0 && button(text.stopChosen(count), () => chosenDo(state, place, "stop"), { plain: true, needs: ["POST", `${path}/service/stop`] }),
          services.length > 0 && button(text.stopAll, () => stopAll(state), { plain: true, needs: ["POST", `${path}/stop`] }),
          !environment.preview && button(words.previews.button, () => place.go(`${path}/preview`), { plain: true }),
          button(text.hours, async () => (await import("../running_hours.js")).editHours(path), { plain: true, needs: ["PUT", `${path}/deploymentRule/current`] }),
          services.length > 0 && button(words.rollback.button, async () => (await import("../rolling_back.js")).rollBackEnvironment(path, environment.name), { plain: true, icon: "undo-2", needs: ["POST", `${path}/rollback`] }),
          button(words.clone.button, async () => (await import("../cloning.js")).clone(state.document, place, path, environment), { plain: true, needs: ["POST", `${path}/clone`] }),
          button(text.asTerraform, () => saveExport(`${path}/terraformExport`), { plain: true }),
          button(text.asManifests, () => saveExport(`${path}/manifestExport`), { plain: true }),
          button(words.remove.button, () => remove(state, place), { plain: true, danger: true, needs: ["DELETE", path] }),
        ]),
      ],
    }),
    stale(state),
    services.length > 0 && h("div", { class: "switch-row tools", role: "group", "aria-label": text.view },
      [[false, text.list], [true, text.graph]].map(([asGraph, label]) => h("button", { type: "button", class: "button small", "aria-pressed": String(state.asGraph === asGraph), onclick: () => view(state, place, asGraph) }, label)),
      services.length > 10 && h("input", { type: "search", placeholder: text.search, "aria-label": text.search, value: state.search, oninput: (event) => ((state.search = event.target.value), place.update()) })),
    !services.length ? empty(text.empty, linkButton(place, `/new?environment=${environment.id}`, words.places.new, { main: true, needs: ["POST", `${path}/application`] }), "windlass init && windlass up", words.overview.fromFolder)
      : state.asGraph ? graph(byUrgency(rows, IN_GRAPH), state.uses) : list(rows, state, place),
    familyCards(state.document, path),
  ];
}

function answer(services) {
  if (!services.length) return words.overview.nothingRuns;
  const running = services.filter((service) => serviceKind(service) === "ok").length;
  return words.overview.running(running, services.length);
}

async function saveExport(path) {
  const { blob, name } = await api.file(path);
  saveFile(blob, name);
}

async function view(state, place, asGraph) {
  if (asGraph) state.uses = await readUses(state.services.slice(0, IN_GRAPH), state.document);
  state.asGraph = asGraph;
  place.update();
}

function list(rows, state, place) {
  const { chosen, most } = state;
  const choose = (service) => (event) => {
    if (event.target.checked) chosen.add(service.id);
    else chosen.delete(service.id);
    place.update();
  };
  const shown = byUrgency(rows, most);
  return [table([
    { title: "", kind: "narrow", cell: (service) => h("input", { type: "checkbox", checked: chosen.has(service.id), "aria-label": text.choose(service.name), onchange: choose(service) }) },
    { title: words.columns.state, cell: (service) => serviceBadge(service) },
    { title: words.columns.name, kind: "name-cell", cell: (service) => [serviceIcon(service), link(pathOf(service), service.name), h("span", { class: "muted kind" }, words.readable(service.service_type)), changedTag(state.statuses.get(service.id) || {}), service.message && h("p", { class: "message muted" }, prose(service.message.split("\n")[0]))] },
    { title: words.columns.version, cell: (service) => h("code", {}, service.version) },
    { title: words.columns.address, kind: "address-cell", cell: (service) => (service.url ? [outside(service.url, service.url.replace(/^https?:\/\//, "")), copyButton(service.url)] : "") },
    { title: words.columns.instances, kind: "number", cell: (service) => (service.instances ? `${service.ready_instances}/${service.instances}` : "") },
    ...usageColumns(state),
    { title: words.columns.deployed, cell: (service) => ago(service.last_deployment_date) },
  ], shown, { to: pathOf, label: words.columns.services }),
  rows.length > Math.max(most, AT_ONCE) && [button(words.showMore, () => ((state.most += AT_ONCE), place.update())), h("span", { class: "muted" }, ` ${text.ofAll(shown.length, rows.length)}`)]];
}

// Services in the order of their stages, and those that deployments of the whole environment leave out.
async function staged({ path, services }) {
  const placed = (await api.all(`${path}/deploymentStage`)).flatMap((stage) => stage.services.map(({ service_id: id, is_skipped }) => [id, { order: stage.deployment_order, is_skipped }]));
  const stages = new Map(placed);
  const sorted = [...services].sort((one, other) => (stages.get(one.id)?.order || 0) - (stages.get(other.id)?.order || 0));
  return { sorted, skipped: new Set(placed.filter(([, { is_skipped }]) => is_skipped).map(([id]) => id)) };
}

function inOrder(services) {
  return [h("p", { class: "muted" }, text.order), h("ol", { class: "order" }, services.map((service) => h("li", {}, service.name, " ", h("span", { class: "muted" }, words.readable(service.service_type)))))];
}

async function deployAll(state, place) {
  const { path, environment } = state;
  const { sorted, skipped } = await staged(state);
  const services = sorted.filter(({ id }) => !skipped.has(id));
  const about = [text.deployAllWill(services.length), ...inOrder(services)];
  if (!(await confirm(text.deployAllTitle(environment.name), about, { action: text.deployAll }))) return;
  const { deployment_request_id: id } = await api.post(`${path}/deploy`);
  say(text.deployAllDone(services.length));
  if (services.length) await place.go(`${path}/deployments/${id}`);
}

async function stopAll(state) {
  const { path, environment } = state;
  const about = [words.actions.stop.will, ...inOrder((await staged(state)).sorted.reverse())];
  if (!(await confirm(words.actions.stop.title(environment.name), about, { action: text.stopAll, danger: true }))) return;
  await api.post(`${path}/stop`);
  say(words.actions.stop.done(environment.name));
}

async function chosenDo(state, place, action) {
  const services = (await staged(state)).sorted.filter((service) => state.chosen.has(service.id));
  const word = action === "deploy" ? text.deployChosen(services.length) : text.stopChosen(services.length);
  const about = action === "deploy" ? [text.deployAllWill(services.length), ...inOrder(services)] : [words.actions.stop.will, ...inOrder([...services].reverse())];
  if (!(await confirm(word, about, { action: word, danger: action === "stop" }))) return;
  await api.post(`${state.path}/service/${action}`, lists(state, services, action));
  state.chosen.clear();
  say(action === "deploy" ? text.deployAllDone(services.length) : text.stopDone(services.length));
  place.update();
}

// The body has a list for each kind of service: of ids, or of objects that name one in their first required field.
function lists({ document, path }, services, action) {
  const { properties } = document.body(document.at("POST", `${path}/service/${action}`));
  const body = {};
  for (const { id, service_type: type } of services) {
    const kind = type.toLowerCase();
    const name = [`${kind}s`, `${kind}_ids`].find((other) => properties[other]);
    const item = document.resolve(properties[name].items);
    (body[name] ||= []).push(item.properties ? { [item.required[0]]: id } : id);
  }
  return body;
}

async function remove({ path, environment, project, services }, place) {
  const will = services.some((service) => words.kinds[service.service_type]?.remove) ? [text.removeWill, text.removeResources] : text.removeWill;
  if (!(await confirm(words.remove.title(environment.name), will, { action: words.remove.button, danger: true, name: environment.name }))) return;
  await api.delete(path);
  say(words.remove.done(environment.name));
  await place.go(project ? `/project/${project.id}` : "/");
}
