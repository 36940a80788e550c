// The plan of what would change, before it is applied; the lock on the state, and the versions of the state.

import { api } from "../../api.js";
import { h } from "../../dom.js";
import { commandFor } from "../../equivalents.js";
import { ago, bytes, duration } from "../../format.js";
import { whileSeen } from "../../live.js";
import { button, confirm, copyButton, empty, facts, panel, say, table } from "../../parts.js";
import { deploy, deploymentLink } from "../../services.js";
import { badge, isBusy } from "../../states.js";
import { words } from "../../words.js";
import { modules } from "../../words_of_modules.js";

const text = words.plan;

export const hasMainAction = true;
const SIGNS = { create: "+", update: "~", destroy: "−", replace: "±", read: "→", forget: "○" };
const COUNTS = [["added", "+", "ok"], ["changed", "~", "warn"], ["destroyed", "−", "bad"]];

export async function load(state) {
  const content = { chosen: null };
  const part = async (name) => (state.has(name) ? api.get(`${state.path}/${name}`) : null);
  content.read = async () => {
    const [plans, lock, versions] = await Promise.all([part("plan"), part("lock"), part("stateVersion")]);
    Object.assign(content, { plans: plans.results, lock, versions: versions?.results || [] });
  };
  await content.read();
  return content;
}

export function watch(state, place, draw) {
  whileSeen(place, async () => (await state.content.read(), draw()), () => Boolean(underWay(state)) || state.content.lock?.is_locked);
}

// Plans of runs that have ended are there a moment later, so the newest run counts until its plan is seen.
const underWay = ({ deployments }) => deployments.find((deployment) => isBusy(deployment.status));

export function render(state, place) {
  const { content, path, service } = state;
  const plan = content.plans.find((other) => other.deployment_id === content.chosen) || content.plans[0];
  const now = underWay(state);
  const make = button(text.make, () => run(state, place), { main: !plan?.applicable, disabled: Boolean(now), key: "plan", needs: ["POST", `${path}/deploy`] });
  return [
    now && h("section", { class: "panel" }, h("p", {}, badge(now.status), " ", deploymentLink(path, now, text.underWay(now.number)))),
    plan ? thePlan(state, place, plan, make) : !now && empty(text.empty, make, commandFor(commandOf(state), service.name)),
    content.plans.length > 1 && earlier(state, place, plan),
    h("div", { class: "columns" }, content.lock && lock(state, place), state.has("stateVersion") && versions(state, place)),
  ];
}

function thePlan(state, place, plan, make) {
  const apply = plan.applicable && button(text.apply, () => applyIt(state, place, plan), { main: true, disabled: Boolean(underWay(state)), key: "apply", needs: ["POST", `${state.path}/deploy`] });
  return h("section", { class: "panel" },
    h("header", { class: "head" },
      h("div", {}, h("h2", {}, deploymentLink(state.path, { id: plan.deployment_id }, titleOf(state, plan))), h("p", { class: "muted" }, ago(plan.created_at), " · ", plan.applicable ? text.isTrue : underWay(state)?.id === plan.deployment_id ? modules.isMade : text.isPast)),
      h("div", { class: "actions" }, make, apply)),
    h("p", { class: "counts" }, COUNTS.map(([name, sign, kind]) => h("span", { class: plan[name] ? `count ${kind}` : "count" }, h("strong", {}, `${sign}${plan[name]}`), ` ${text.counts[name]}`))),
    plan.resources.length > 0 ? h("ul", { class: "plain resources" }, plan.resources.map(resource)) : h("p", { class: "muted" }, text.noChange),
    h("details", { key: plan.deployment_id }, h("summary", {}, text.asText), h("div", { class: "actions" }, copyButton(plan.text)), h("pre", { class: "lines", tabindex: "0" }, plan.text)));
}

function resource({ address, action }) {
  const kind = { create: "ok", destroy: "bad", replace: "bad", update: "warn" }[action] || "off";
  return h("li", {}, h("span", { class: `state ${kind}` }, h("span", { class: "glyph", "aria-hidden": "true" }, SIGNS[action] || "·"), text.actions[action] || words.readable(action)), h("code", {}, address));
}

const titleOf = ({ deployments }, plan) => text.of(deployments.find((deployment) => deployment.id === plan.deployment_id)?.number);

const inShort = (plan) => COUNTS.map(([name, sign]) => `${sign}${plan[name]}`).join(" ");

function earlier(state, place, present) {
  const choose = (plan) => () => ((state.content.chosen = plan.deployment_id), place.update());
  return panel(text.earlier, table([
    { title: text.title, wide: true, cell: (plan) => titleOf(state, plan) },
    { title: text.changes, cell: (plan) => h("code", {}, inShort(plan)) },
    { title: words.columns.when, cell: (plan) => ago(plan.created_at) },
    { title: "", kind: "number", cell: (plan) => (plan === present ? h("span", { class: "tag" }, text.shown) : button(text.show, choose(plan), { small: true })) },
  ], state.content.plans, { key: (plan) => plan.deployment_id, label: text.earlier }));
}

function lock({ content, path, deployments }, place) {
  const held = content.lock;
  if (!held.is_locked) return panel(text.lock, h("p", { class: "muted" }, text.isFree));
  const number = deployments.find((deployment) => deployment.id === held.deployment_id)?.number;
  return panel(text.lock,
    facts([
      [text.owner, held.owner], [text.operation, held.operation], [text.age, duration(held.age_seconds * 1000)],
      [text.run, held.deployment_id && deploymentLink(path, { id: held.deployment_id }, number ? `v${number}` : words.open)],
    ]),
    h("p", { class: held.is_running ? "muted" : "stale" }, held.is_running ? text.isHeld : text.isLeft),
    !held.is_running && h("div", { class: "actions" }, button(text.unlock, () => unlock(path, place), { danger: true, needs: ["POST", `${path}/deploy`] })));
}

function versions(state, place) {
  const rows = state.content.versions;
  const move = h("div", { class: "actions" }, button(modules.move, () => moveState(state, place), { small: true, disabled: Boolean(underWay(state)), needs: ["POST", `${state.path}/deploy`] }));
  if (!rows.length) return panel(text.versions, h("p", { class: "muted" }, text.noVersions), move);
  const restore = (row) => (row.is_current ? h("span", { class: "tag" }, text.current) : button(text.restore, () => restoreState(state, place, row), { small: true, needs: ["POST", `${state.path}/restoreState`] }));
  return panel(text.versions, table([
    { title: words.columns.version, cell: (row) => [`${row.number}`, row.restored_from && h("span", { class: "muted" }, ` ${text.restoredFrom(row.restored_from)}`)] },
    { title: words.columns.when, cell: (row) => ago(row.created_at) },
    { title: text.size, kind: "number", cell: (row) => bytes(row.bytes) },
    { title: "", kind: "number", cell: restore },
  ], rows, { key: (row) => row.number, label: text.versions }), move);
}

// Without a lock, the only value of a parameter of a deploy asks for a plan.
function askingOf({ document, path }) {
  const valuesOf = ({ schema }) => (schema?.enum || []).filter(Boolean);
  const found = document.at("POST", `${path}/deploy`).parameters.find((parameter) => parameter.in === "query" && valuesOf(parameter).length === 1);
  return [found.name, valuesOf(found)[0]];
}

function commandOf(state) {
  const [name, value] = state.has("lock") ? ["action", "PLAN"] : askingOf(state);
  const option = name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
  return `windlass ${state.path.split("/")[1]} deploy --${option} ${value} --wait`;
}

// The page stays: the plan appears here when it is made.
async function run(state, place) {
  if (state.has("lock")) await api.post(`${state.path}/deploy`, { action: "PLAN" });
  else await api.post(`${state.path}/deploy?${new URLSearchParams([askingOf(state)])}`, {});
  say(text.asked);
  await state.read();
  place.update();
}

async function applyIt({ path, service }, place, plan) {
  const list = h("ul", { class: "plain resources choose" }, plan.resources.map(resource));
  if (!(await confirm(text.applyTitle(service.name), [text.applyWill(inShort(plan)), list], { action: text.apply, danger: plan.destroyed > 0, wide: true }))) return;
  await deploy(place, path, { plan_id: plan.deployment_id });
}

async function unlock(path, place) {
  if (await confirm(text.unlock, text.unlockWill, { action: text.unlock, danger: true })) await deploy(place, path, { action: "FORCE_UNLOCK" });
}

async function moveState({ path }, place) {
  if (await confirm(modules.move, modules.moveWill, { action: modules.move })) await deploy(place, path, { action: "MIGRATE_STATE" });
}

async function restoreState({ path, content }, place, { number }) {
  if (!(await confirm(text.restoreTitle(number), text.restoreWill, { action: text.restore, danger: true }))) return;
  await api.post(`${path}/restoreState`, { number });
  say(text.restored(number));
  await content.read();
  place.update();
}
