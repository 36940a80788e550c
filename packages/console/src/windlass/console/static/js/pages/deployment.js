// A deployment by the stages that its log names, with the time of each: queued, fetched, built, started.

import { api } from "../api.js";
import { now } from "../clock.js";
import { loadDocument } from "../document.js";
import { h } from "../dom.js";
import { ago, bytes, clockTime, duration, exactTime } from "../format.js";
import { follow } from "../live.js";
import { button, copyButton, facts, head, outside, panel, say, stale } from "../parts.js";
import { act, commitLine, enterOrganizationOf, rollBack } from "../services.js";
import { crumbs, siblings } from "../shell.js";
import { coloured } from "../sgr.js";
import { badge, stateIcon } from "../states.js";
import { words } from "../words.js";
import { failure } from "./failure.js";

const text = words.deployment;
const OPEN = ["QUEUED", "BUILDING", "DEPLOYING"];

export async function load(place) {
  const { params } = place;
  const path = `/${params.kind}/${params.id}`;
  const base = `${path}/deployment/${params.deployment}`;
  const [service, deployment, deployments, lines] = await Promise.all([api.get(path), api.get(base), api.get(`${path}/deployment`, { page_size: 20 }), logLines(base)]);
  const [links] = await Promise.all([linksOf(path), enterOrganizationOf(place, service)]);
  return { path, base, service, deployment, deployments: deployments.results, lines, links, isLive: true, title: `${service.name} ${words.deploymentName(deployment)}` };
}

// Services without addresses, such as jobs, have no links.
const linksOf = async (path) => ((await loadDocument()).at("GET", `${path}/link`) ? (await api.get(`${path}/link`)).results : []);
const logLines = (base) => api.get(`${base}/log`, { tail: 10000 }).then((answer) => answer.results);

export function watch(state, place, draw) {
  if (!OPEN.includes(state.deployment.status)) return;
  const known = new Set(state.lines.map((line) => line.id));
  let waiting = null;
  const soon = () => (waiting ||= requestAnimationFrame(() => ((waiting = null), draw())));
  const stopLog = follow(`${state.base}/log?follow=true&tail=10000`, { event: (line) => known.has(line.id) || (known.add(line.id), state.lines.push(line), soon()) });
  const stopState = follow(`${state.base}/stream`, {
    event: async (deployment) => {
      state.deployment = deployment;
      if (!OPEN.includes(deployment.status)) {
        stopState();
        state.links = await linksOf(state.path);
        setTimeout(stopLog, 3000);
        say(text.ended(state.service.name, words.states[deployment.status] || words.readable(deployment.status)), { bad: deployment.status === "FAILED" });
      }
      soon();
    },
    state: (isLive, since, why) => (Object.assign(state, { isLive, since, why }), soon()),
    ended: () => api.get(state.base).catch(place.fail),
  });
  const clock = setInterval(() => state.isLive && OPEN.includes(state.deployment.status) && draw(), 1000);
  place.onStop(() => (stopLog(), stopState(), clearInterval(clock)));
}

export function render(state, place) {
  const { deployment, service, path, deployments, links } = state;
  const isOpen = OPEN.includes(deployment.status);
  const address = links.find((other) => other.is_default) || links[0];
  return [
    crumbs([service.name, path], [words.tabs.deployments, `${path}/deployments`], [words.deploymentName(deployment)]),
    siblings(deployments.map(({ id }) => `${path}/deployments/${id}`).reverse(), `${path}/deployments/${deployment.id}`),
    head(`${words.doneBy(deployment, service.service_type)} ${words.deploymentName(deployment)}`, {
      actions: [
        isOpen && button(words.actions.cancelDeployment.button, () => act(place, path, service.name, { action: "cancelDeployment" }), { key: "cancel", needs: ["POST", `${path}/cancelDeployment`] }),
        deployment.status === "SUCCEEDED" && address && outside(address.url, h("span", { class: "button main" }, words.open)),
        deployment.status === "SUCCEEDED" && !deployment.command && deployments[0]?.id !== deployment.id && button(words.rollback.here, () => rollBack(place, path, service.name, [deployment]), { key: "back", needs: ["POST", `${path}/rollback`] }),
      ],
    }),
    stale(state),
    h("div", { class: "service-line" }, badge(deployment.status), commitLine(deployment),
      h("span", { class: "muted" }, [deployment.commit?.author_name, text.asked(deployment.triggered_by)].filter(Boolean).join(" · ")), ago(deployment.created_at),
      address && deployment.status === "SUCCEEDED" && h("span", { class: "address" }, outside(address.url, address.url.replace(/^https?:\/\//, "")), copyButton(address.url))),
    deployment.status === "FAILED" && failure(deployment.message, { path, environment: service.environment.id, name: service.name, deployments, place }),
    deployment.status !== "FAILED" && deployment.message && panel(null, h("p", {}, deployment.message)),
    story(state),
    usage(deployment),
    run(deployment),
  ];
}

/** Cuts the log into stages. A line without one belongs to the stage of the line before. */
export function stages(deployment, lines) {
  const cut = [{ name: "QUEUED", at: deployment.created_at, lines: [] }];
  if (deployment.started_at) cut.push({ name: lines[0]?.stage || (deployment.action === "DEPLOY" ? "FETCH" : deployment.action), at: deployment.started_at, lines: [] });
  for (const line of lines) {
    if (line.stage && line.stage !== cut.at(-1).name) cut.push({ name: line.stage, at: line.created_at, lines: [] });
    cut.at(-1).lines.push(line);
  }
  return cut.map((stage, index) => ({ ...stage, end: cut[index + 1]?.at || deployment.finished_at, isLast: index === cut.length - 1 }))
    .filter((stage) => stage.lines.length || stage.isLast || new Date(stage.end) - new Date(stage.at) > 50);
}

function story({ deployment, lines }) {
  const parts = stages(deployment, lines);
  const isOpen = OPEN.includes(deployment.status);
  return h("ol", { class: "story" }, parts.map((stage, index) => {
    const isNow = isOpen && stage.isLast;
    const hasFailed = deployment.status === "FAILED" && stage.isLast;
    const length = (stage.end ? new Date(stage.end) : now()) - new Date(stage.at);
    const kind = isNow ? "busy" : hasFailed ? "bad" : "ok";
    return h("li", { key: `${stage.name}${index}`, class: kind },
      h("details", { open: isNow || hasFailed || stage.name === "BUILD" },
        h("summary", {}, stateIcon(kind), h("strong", {}, text.stages[stage.name] || words.readable(stage.name)), h("span", { class: "muted number" }, duration(length))),
        stage.lines.length > 0 && h("pre", { class: "lines", tabindex: "0", "data-end": isNow || hasFailed || null }, stage.lines.slice(-2000).map(logLine))));
  }));
}

function logLine(line) {
  return h("div", { key: line.id }, h("time", { class: "muted", datetime: line.created_at, title: exactTime(line.created_at) }, clockTime(line.created_at)), " ", coloured(line.message));
}

// What the steps of the build used, where the engine measures it.
function usage({ build_usage: used }) {
  return used && panel(text.usage, facts([
    [text.cpu, used.cpu_seconds === null ? text.unmeasured : text.seconds(used.cpu_seconds)],
    [text.memory, used.peak_memory_bytes === null ? text.unmeasured : bytes(used.peak_memory_bytes)],
  ]));
}

function run(deployment) {
  const report = deployment.run || deployment.release;
  if (!report) return null;
  return panel(deployment.run ? text.run : text.release, facts([
    [text.command, deployment.command?.length ? h("code", {}, deployment.command.join(" ")) : ""],
    [text.exit, report.exit_code === null || report.exit_code === undefined ? "" : String(report.exit_code)],
    [text.reason, report.reason],
  ]), report.output?.length > 0 && h("pre", { class: "lines", tabindex: "0" }, coloured(report.output.join("\n"))));
}
