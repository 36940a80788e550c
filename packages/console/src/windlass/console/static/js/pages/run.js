// One run of a job: how it ended, and its log, followed while it goes on.

import { api } from "../api.js";
import { loadDocument } from "../document.js";
import { h, own, prose } from "../dom.js";
import { ago, bytes } from "../format.js";
import { whileSeen } from "../live.js";
import { logView } from "../log_view.js";
import { button, confirm, copyButton, facts, head, panel, say } from "../parts.js";
import { enterOrganizationOf } from "../services.js";
import { crumbs, siblings } from "../shell.js";
import { words } from "../words.js";
import { causeOf, exitCode, isOpen, runBadge, took } from "./service/runs.js";

const text = words.runs;

export async function load(place) {
  const { kind, id, run } = place.params;
  const base = `/${kind}/${id}`;
  const path = `${base}/run/${run}`;
  const [service, shown, near] = await Promise.all([api.get(base), api.get(path), api.get(`${base}/run`, { page_size: 50 }), loadDocument()]);
  await enterOrganizationOf(place, service);
  return { base, path, service, run: shown, near: near.results, view: logView(path, `${service.name}-${shown.number}`, place), title: `${service.name}: ${text.one(shown.number)}` };
}

export function watch(state, place, draw) {
  state.view.start();
  if (!isOpen(state.run)) return;
  const stop = whileSeen(place, async () => {
    state.run = await api.get(state.path);
    draw();
    if (!isOpen(state.run)) stop();
  }, () => true);
}

export function render(state, place) {
  const { base, service, run, near, view } = state;
  return [
    crumbs([service.name, base], [words.tabs.runs, `${base}/runs`], [text.number(run.number)]),
    siblings(near.map(({ id }) => `${base}/runs/${id}`).reverse(), `${base}/runs/${run.id}`),
    head(text.one(run.number), { actions: [isOpen(run) && button(text.cancel, () => cancel(state, place), { key: "cancel", needs: ["POST", `${state.path}/cancel`] })] }),
    h("div", { class: "service-line" }, runBadge(run), h("span", {}, causeOf(run)), ago(run.started_at || run.created_at), took(run) && h("span", { class: "muted" }, text.took(took(run)))),
    run.message && h("section", { class: run.status === "FAILED" ? "panel failure" : "panel" }, h("p", { class: "first" }, prose(run.message))),
    panel(null, facts([
      [text.exit, exitCode(run)],
      [text.command, command(run)],
      [text.due, run.scheduled_for && ago(run.scheduled_for)],
      [text.memory, run.peak_memory_bytes ? bytes(run.peak_memory_bytes) : ""],
      [text.variables, run.output_variables?.join(", ")],
    ])),
    own(view.node),
  ];
}

function command({ entrypoint, arguments: given }) {
  const line = [entrypoint, ...(given || [])].filter(Boolean).join(" ");
  return line ? [h("code", {}, line), copyButton(line)] : "";
}

async function cancel(state, place) {
  if (!(await confirm(text.cancel, text.cancelWill, { action: text.cancel, danger: true }))) return;
  state.run = await api.post(`${state.path}/cancel`);
  say(text.canceled(state.run.number));
  place.update();
}
