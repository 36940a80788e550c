// One deployment of an environment: its stages side by side in their order, with the services of each.

import { api } from "../api.js";
import { now } from "../clock.js";
import { h, prose } from "../dom.js";
import { ago, duration } from "../format.js";
import { serviceIcon } from "../icons.js";
import { refreshOnEvents } from "../live.js";
import { button, confirm, head, link, say, stale } from "../parts.js";
import { crumbs } from "../shell.js";
import { badge, kindOf, stateIcon } from "../states.js";
import { words } from "../words.js";
import { deployments as text } from "../words_of_environments.js";

const OPEN = ["QUEUED", "ONGOING", "CANCELING"];
const KINDS = { QUEUED: "wait", ONGOING: "busy", CANCELING: "busy", DONE: "ok", SUCCESS: "ok", ERROR: "bad" };

/** The kind of the status of a deployment, or of a stage. */
export const kindOfStatus = (status) => KINDS[status] || "off";

/** What a deployment does. */
export const actionOf = ({ trigger_action: action }) => text.actions[action] || words.readable(action);

/** The result of a deployment: an icon and a word. */
export const resultBadge = ({ action_status: status }) => statusBadge(status);

const statusBadge = (status) => h("span", { class: `state ${kindOfStatus(status)}` }, stateIcon(kindOfStatus(status)), text.statuses[status] || words.readable(status));
const isOpen = ({ action_status: status }) => OPEN.includes(status);
const milliseconds = (iso) => 1000 * /^PT(\d+)S$/.exec(iso)?.[1];
const secondsOf = (iso) => (milliseconds(iso) ? wholeSeconds(milliseconds(iso)) : "");
const wholeSeconds = (length) => duration(length, length < 10000); // The API answers whole seconds.

/** How long a deployment took, or has taken so far. */
export const tookOf = (entry) => (isOpen(entry) ? wholeSeconds(Math.max(1000, now() - new Date(entry.auditing_data.created_at))) : secondsOf(entry.total_duration));

export async function load(place) {
  const { environment: id, deployment } = place.params;
  const path = `/environment/${id}`;
  const environment = await api.get(path);
  place.belongsTo(environment.organization);
  const state = { path, environment, isLive: true };
  state.read = async () => {
    [state.entry] = (await api.get(`${path}/deploymentHistoryV2`, { executionId: deployment })).results;
  };
  await state.read();
  state.title = `${state.entry ? actionOf(state.entry) : words.tabs.deployments} · ${environment.name}`;
  return state;
}

export function watch(state, place, draw) {
  refreshOnEvents(`${state.path}/status/stream`, state, place, draw);
  const clock = setInterval(() => state.isLive && state.entry && isOpen(state.entry) && draw(), 1000);
  place.onStop(() => clearInterval(clock));
}

export function render(state, place) {
  const { environment, entry, path } = state;
  const way = crumbs([environment.name, path], [words.tabs.deployments, `${path}/deployments`], ...(entry ? [[actionOf(entry)]] : []));
  if (!entry) return [way, head(words.tabs.deployments), h("p", { class: "muted" }, text.gone)];
  const own = `/deploymentQueue/${entry.identifier.execution_id}/cancelDeployment`;
  return [
    way,
    head(text.of(actionOf(entry), environment.name), {
      actions: [isOpen(entry) && button(words.actions.cancelDeployment.button, () => cancel(state, place, own), { key: "cancel", needs: ["POST", own] })],
    }),
    stale(state),
    h("div", { class: "service-line" }, resultBadge(entry), h("span", { class: "muted" }, words.deployment.asked(entry.auditing_data.triggered_by)), ago(entry.auditing_data.created_at), h("span", { class: "number" }, tookOf(entry))),
    h("ol", { class: "pipeline", "aria-label": text.stages, tabindex: "0" }, entry.stages.map(column)),
  ];
}

function column(stage) {
  const kind = kindOfStatus(stage.status);
  return h("li", { key: `${stage.deployment_order} ${stage.name}`, class: kind },
    h("div", { class: "pipeline-head" }, h("h2", {}, stage.name), h("span", { class: "muted number" }, secondsOf(stage.duration)), statusBadge(stage.status)),
    h("ul", {}, stage.services.map(card)));
}

function versionOf({ commit, image_name: image, tag }) {
  if (commit) return [h("code", {}, commit.git_commit_id.slice(0, 8)), " ", commit.message.split("\n")[0]];
  return image ? h("code", {}, `${image}:${tag}`) : null;
}

function card(service) {
  const { identifier, stage_status: status, message, details } = service;
  const icons = { service_type: identifier.service_type, icon_uri: service.icon_uri };
  const to = `/${identifier.service_type.toLowerCase()}/${identifier.service_id}/deployments/${identifier.execution_id}`;
  const state = status === "SKIPPED" || status === "CANCELED" ? statusBadge(status) : badge(service.status, kindOf(service.status), identifier.service_type);
  return h("li", { key: identifier.service_id, class: kindOfStatus(status) },
    h("div", { class: "pipeline-name" }, serviceIcon(icons), link(to, identifier.name), h("span", { class: "muted number" }, secondsOf(service.total_duration))),
    state, h("div", { class: "fine muted" }, versionOf(details)),
    message && h("p", { class: "message muted" }, prose(message.split("\n")[0])));
}

async function cancel(state, place, own) {
  const about = words.actions.cancelDeployment;
  if (!(await confirm(about.title(state.environment.name), text.cancelWill, { action: about.button }))) return;
  await api.post(own, {});
  await state.read();
  place.update();
  say(about.done(state.environment.name));
}
