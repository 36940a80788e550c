// The deployments of an environment, the newest first: what one request has started is one row.

import { api } from "../api.js";
import { h } from "../dom.js";
import { ago } from "../format.js";
import { kindIcon } from "../icons.js";
import { refreshOnEvents } from "../live.js";
import { button, empty, head, link, stale, table } from "../parts.js";
import { crumbs } from "../shell.js";
import { dot } from "../states.js";
import { words } from "../words.js";
import { deployments as text } from "../words_of_environments.js";
import { actionOf, kindOfStatus, resultBadge, tookOf } from "./environment_deployment.js";

const AT_ONCE = 20;

export async function load(place) {
  const path = `/environment/${place.params.environment}`;
  const environment = await api.get(path);
  place.belongsTo(environment.organization);
  const state = { path, environment, isLive: true, most: AT_ONCE, title: `${words.tabs.deployments} · ${environment.name}` };
  state.read = async () => {
    state.rows = (await api.get(`${path}/deploymentHistoryV2`, { pageSize: state.most })).results;
  };
  await state.read();
  return state;
}

export function watch(state, place, draw) {
  refreshOnEvents(`${state.path}/status/stream`, state, place, draw);
}

export function render(state, place) {
  const { environment, path, rows } = state;
  const more = async () => {
    state.most = Math.min(100, state.most + AT_ONCE);
    await state.read();
    place.update();
  };
  const pathOf = (entry) => `${path}/deployments/${entry.identifier.execution_id}`;
  return [
    crumbs([environment.name, path], [words.tabs.deployments]),
    head([kindIcon("deploymentStage"), words.tabs.deployments], { about: text.about }),
    stale(state),
    rows.length ? table([
      { title: words.columns.state, cell: resultBadge },
      { title: text.action, kind: "name-cell", cell: (entry) => [link(pathOf(entry), actionOf(entry)), h("span", { class: "muted kind" }, text.services(servicesOf(entry)))] },
      { title: text.stages, cell: (entry) => h("span", { class: "dots" }, entry.stages.map((stage) => dot(kindOfStatus(stage.status), `${stage.name}: ${text.statuses[stage.status]}`))) },
      { title: text.by, cell: (entry) => entry.auditing_data.triggered_by },
      { title: text.asked, cell: (entry) => ago(entry.auditing_data.created_at) },
      { title: text.took, kind: "number", cell: tookOf },
    ], rows, { to: pathOf, key: (entry) => entry.identifier.execution_id, label: words.tabs.deployments })
      : empty(text.none),
    rows.length === state.most && state.most < 100 && button(words.showMore, more),
  ];
}

const servicesOf = ({ stages }) => stages.flatMap(({ services }) => services.map(({ identifier }) => identifier.name));
