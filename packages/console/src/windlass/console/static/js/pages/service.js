// A service: its state, address, version and main action; its parts are tabs.

import { api } from "../api.js";
import { fill, h } from "../dom.js";
import { loadDocument } from "../document.js";
import { ago } from "../format.js";
import { familiesOf, familyOf } from "../families.js";
import { serviceIcon } from "../icons.js";
import { refreshOnEvents, whileSeen } from "../live.js";
import { button, confirm, copyButton, head, menu, outside, stale, tabs } from "../parts.js";
import { TABS } from "../routes.js";
import { act, commitLine, deploy, enterOrganizationOf, onlyLooks, remove, rollBack, willOf } from "../services.js";
import { crumbs } from "../shell.js";
import { badge, changedTag, isBusy, kindOf, lacksPort, plannedBadge, seenState } from "../states.js";
import { words } from "../words.js";

export async function load(place) {
  const { kind, id, tab = "overview" } = place.params;
  const path = `/${kind}/${id}`;
  const document = await loadDocument();
  const serves = Boolean(document.at("GET", `${path}/link`)); // a job, for example, serves nothing
  const state = { path, kind, id, tab, serves, isLive: true };
  state.read = async () => {
    const [service, status, deployments, links] = await Promise.all([
      api.tagged(path), api.get(`${path}/status`), deploymentsOf(path, serves), serves ? api.get(`${path}/link`) : { results: [] }]);
    Object.assign(state, { service: service.data, tag: service.tag, status, deployments, links: links.results });
  };
  await state.read();
  state.can = (action) => Boolean(document.at("POST", `${path}/${action}`));
  state.has = (part) => Boolean(document.at("GET", `${path}/${part}`));
  state.document = document;
  const environment = await enterOrganizationOf(place, state.service);
  Object.assign(state, { environment, project: environment && (await api.seen(`/project/${environment.project.id}`)), title: tab === "overview" ? state.service.name : `${words.tabs[tab]} · ${state.service.name}` });
  state.inner = await TABS[tab].load();
  state.content = await state.inner.load(state, place);
  return state;
}

export function watch(state, place, draw) {
  let seen = JSON.stringify(state.status);
  const isRelevant = (statuses) => {
    if (statuses.removed.includes(state.id)) return true;
    const mine = Object.values(statuses).flat().find((status) => status.id === state.id);
    const text = JSON.stringify(mine);
    if (!mine || text === seen) return false;
    seen = text;
    return true;
  };
  if (state.environment) refreshOnEvents(`/environment/${state.environment.id}/status/stream`, state, place, draw, { isRelevant });
  else whileSeen(place, async () => (await state.read(), draw()), () => isBusy(state.status.state)); // The stream is of the environment.
  state.inner.watch?.(state, place, draw);
}

export function render(state, place) {
  const { service, project, environment, path, tab } = state;
  return [
    crumbs(project && [project.name, `/project/${project.id}`], environment && [environment.name, `/environment/${environment.id}`], [service.name]),
    head([serviceIcon(service), service.name], { actions: actions(state, place) }),
    h("div", { class: "service-line" }, present(state)),
    stale(state),
    tabs([...tabsOf(state).map((name) => [name === "overview" ? path : `${path}/${name}`, words.tabs[name]]), ...familiesOf(state.document, path).map((list) => [`${path}/${familyOf(list)}`, words.tabs[familyOf(list)] || state.document.titleOf(list)])], tab === "overview" ? path : `${path}/${tab}`),
    state.inner.render(state, place),
  ];
}

/** The deployment that serves now, as the server says. Of what serves nothing, such as a job, the version that runs next. */
export function serving({ deployments, serves }) {
  if (serves) return deployments.find((deployment) => deployment.serves) || null;
  return deployments.find((deployment) => deployment.status === "SUCCEEDED" && ["DEPLOY", "RUN"].includes(deployment.action) && !deployment.command && !onlyLooks(deployment)) || null;
}

// Behind many commands that ran once, the version that serves may be on a later page.
async function deploymentsOf(path, serves) {
  const { results } = await api.get(`${path}/deployment`, { page_size: 20 });
  if (!serves || results.length < 20 || results.some((deployment) => deployment.serves)) return results;
  const older = (await api.get(`${path}/deployment`, { page_size: 500 })).results.find((deployment) => deployment.serves);
  return older ? [...results, older] : results;
}

function present(state) {
  const { status, links, deployments } = state;
  const now = serving(state);
  const address = links.find((link) => link.is_default) || links[0];
  return [
    lacksPort(state.service, status.state)
      ? badge(status.state, "warn", "", words.states.UNREACHED)
      : state.has("plan") && status.state === "RUNNING" && deployments.length < 20 && !deployments.some((deployment) => deployment.status === "SUCCEEDED" && !onlyLooks(deployment))
        ? plannedBadge()
      : badge(seenState(status), kindOf(status.state, { instances: status.instances, ready: status.ready_instances }), state.service.service_type),
    changedTag(status),
    address && h("span", { class: "address" }, outside(address.url, address.url.replace(/^https?:\/\//, "")), copyButton(address.url)),
    address?.remark && h("span", { class: "muted" }, address.remark),
    now && h("span", {}, `v${now.number} `, commitLine(now), now.commit?.author_name && h("span", { class: "muted" }, ` ${now.commit.author_name},`), " ", ago(now.finished_at)),
  ];
}

function tabsOf({ has, can, document, path }) {
  const sent = document.body(document.at("POST", `${path}/deploy`)).properties || {};
  const settings = document.body(document.at("PUT", `${path}/advancedSettings`)).properties || {};
  return Object.keys(TABS).filter((name) => {
    const { reads, needs, sends, set } = TABS[name];
    return (!reads || has(reads)) && (!set || settings[set]) && (!needs || can(needs)) && (!sends || sent[sends]);
  });
}

function actions(state, place) {
  const { status, service, path, deployments } = state;
  const isOn = !["STOPPED", "READY"].includes(status.state);
  const going = deployments.find((deployment) => ["QUEUED", "BUILDING", "DEPLOYING"].includes(deployment.status));
  const main = going && isBusy(status.state) && state.can("cancelDeployment")
    ? button(words.actions.cancelDeployment.button, () => act(place, path, service.name, { action: "cancelDeployment" }), { key: "cancel", icon: "x", needs: ["POST", `${path}/cancelDeployment`] })
    : button(words.actions.deploy.button, () => start(state, place), { main: !state.inner.hasMainAction, key: "deploy", icon: "rocket", needs: ["POST", `${path}/deploy`] });
  const run = async () => (await import("./service/runs.js")).runNow(state, place);
  return [
    isOn && deployments.length > 0 && state.has("run") && state.can("run") && state.tab !== "runs" && button(words.runs.start, run, { key: "run", icon: "play", needs: ["POST", `${path}/run`] }),
    isOn && state.can("restart-service") && button(words.actions["restart-service"].button, () => act(place, path, service.name, { action: "restart-service" }), { key: "restart", icon: "rotate-cw", needs: ["POST", `${path}/restart-service`] }),
    main,
    menu(words.more, [
      state.can("rollback") && button(words.rollback.button, () => rollBack(place, path, service.name, deployments, serving(state)?.id), { plain: true, icon: "undo-2", needs: ["POST", `${path}/rollback`] }),
      isOn && state.can("stop") && button(words.actions.stop.button, () => act(place, path, service.name, { action: "stop", danger: true }), { plain: true, icon: "square", needs: ["POST", `${path}/stop`] }),
      state.can("clone") && button(words.clone.button, async () => (await import("../cloning.js")).clone(state.document, place, path, service), { plain: true, icon: "copy", needs: ["POST", `${path}/clone`] }),
      willOf(path, "uninstall") && deployments.length > 0 && button(words.actions.uninstall.button, () => act(place, path, service.name, { action: "uninstall", danger: true, typed: true }), { plain: true, icon: "x", danger: true, needs: ["POST", `${path}/uninstall`] }),
      button(words.remove.button, () => remove(place, path, service.name, `/environment/${service.environment.id}`), { plain: true, icon: "trash-2", danger: true, needs: ["DELETE", path] }),
    ]),
  ];
}

async function start({ service, status, path, has, document }, place) {
  const will = status.running_instances ? words.actions.deploy.replaces(status.running_instances) : willOf(path, "deploy", words.actions.deploy.begins);
  const commits = has("commit") && document.body(document.at("POST", `${path}/deploy`)).properties?.git_commit_id ? commitChoice(path) : null;
  if (!(await confirm(words.actions.deploy.title(service.name), [will, commits].filter(Boolean), { action: words.actions.deploy.button }))) return;
  await deploy(place, path, commits?.chosen ? { git_commit_id: commits.chosen } : {});
}

// The newest commits of the branch are read when the choice is opened.
function commitChoice(path) {
  const list = h("div", { class: "choose" });
  const node = h("details", {}, h("summary", {}, words.actions.deploy.choose), list);
  const choose = (id, ...label) => h("label", { class: "commit-choice" }, h("input", { type: "radio", name: "commit", checked: !id, onchange: () => (node.chosen = id) }), " ", label);
  node.addEventListener("toggle", async () => {
    if (!node.open || list.firstChild) return;
    fill(list, h("p", { class: "muted" }, "…"));
    const found = await api.get(`${path}/commit`).then(({ results }) => results, (error) => error);
    if (found instanceof Error) return void fill(list, h("p", { class: "muted" }, found.message));
    fill(list, choose("", words.actions.deploy.newest), found.map((commit) => choose(commit.git_commit_id, commitLine({ git_commit_id: commit.git_commit_id, commit }), h("span", { class: "muted" }, ` ${commit.author_name} `), ago(commit.created_at))));
  });
  return node;
}
