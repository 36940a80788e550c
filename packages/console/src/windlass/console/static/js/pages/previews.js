// The previews of an environment: which pull requests get one, and what became of each.

import { api } from "../api.js";
import { changeRule } from "../deployment_rule.js";
import { h, own, prose } from "../dom.js";
import { loadDocument } from "../document.js";
import { ago } from "../format.js";
import { kindIcon } from "../icons.js";
import { button, confirm, copyButton, dialog, empty, field, head, link, menu, outside, panel, say, showError, steps } from "../parts.js";
import { refusalOf } from "../rights.js";
import { cards, segments } from "../settings/part.js";
import { crumbs } from "../shell.js";
import { stateIcon } from "../states.js";
import { words } from "../words.js";
import { previews } from "../words_of_environments.js";

const text = previews;
const EVERY = 10000;
const KINDS = { PLANNED: "busy", WAITING_FOR_APPROVAL: "warn", WAITING_FOR_ROOM: "wait", DEPLOYING: "busy", RUNNING: "ok", FAILED: "bad", STOPPED: "off", ENDED: "off" };
const RULES = { none: [false, false], label: [false, true], all: [true, false] };

export async function load(place) {
  const base = `/environment/${place.params.parentId}`;
  const path = `${base}/preview`, rulePath = `${base}/deploymentRule`;
  const [environment, rule] = await Promise.all([api.get(base), api.seen(rulePath), loadDocument()]);
  place.belongsTo(environment.organization);
  const state = { base, path, rulePath, environment, rule, title: `${text.title} · ${environment.name}` };
  const refresh = async () => (state.rows = await api.all(path));
  await refresh();
  return Object.assign(state, { read: refresh, refreshing: { refresh, every: EVERY } });
}

export function render(state, place) {
  const { base, environment, rows } = state;
  const make = button(text.create, () => create(state, place), { main: true, icon: "plus", needs: ["POST", state.path] });
  const open = rows.filter(({ state: word }) => word !== "ENDED"), ended = rows.filter(({ state: word }) => word === "ENDED");
  return [
    crumbs([environment.name, base], [text.title]),
    head([kindIcon("preview"), text.title], { about: text.about(environment.name), actions: [make] }),
    environment.preview ? null : ruleOf(state),
    open.length ? open.map((row) => card(state, place, row)) : [empty(text.none, null, `windlass preview create --environment ${environment.name} --branch colours`, text.withCommand), steps(text.steps)],
    ended.length > 0 && h("details", { class: "panel section", key: "ended" }, h("summary", {}, h("h2", {}, text.ended(ended.length))), ended.map((row) => card(state, place, row))),
  ];
}

const presentRule = ({ auto_preview: all, on_demand_preview: label }) => (all ? "all" : label ? "label" : "none");

// Which pull requests get a preview is saved as it is chosen.
function ruleOf(state) {
  const { rule } = state;
  if (!rule) return null;
  const needs = ["PUT", `${state.rulePath}/current`];
  const save = async (name) => {
    const [auto_preview, on_demand_preview] = RULES[name];
    try {
      state.rule = await changeRule(state.rulePath, { auto_preview, on_demand_preview });
      say(text.rules[name].saved);
    } catch (error) {
      showError(error);
    }
  };
  const names = Object.keys(RULES);
  state.ruleNode ||= cards(text.which, names.map((name) => [name, text.rules[name].title, text.rules[name].about]), presentRule(rule), save);
  for (const input of state.ruleNode.querySelectorAll("input")) input.disabled = Boolean(refusalOf(needs));
  return panel(text.which, own(state.ruleNode), h("p", { class: "muted fine" }, refusalOf(needs) || prose(text.rightsHelp)));
}

function titleOf({ pull_request: number, url, title, branch, name, image_name: image, image_tag: tag }) {
  if (tag) return `${image}:${tag}`;
  if (!number) return branch || name;
  return url ? outside(url, `#${number} ${title}`) : `#${number} ${title}`;
}

function card(state, place, row) {
  const kind = KINDS[row.state] || "off";
  const short = (id) => h("code", { title: id }, id.slice(0, 8));
  const inside = row.preview_environment_id && `/environment/${row.preview_environment_id}`;
  return h("section", { class: "panel domain", key: row.id },
    h("div", { class: "head" },
      h("div", {},
        h("h2", {}, titleOf(row)),
        h("p", { class: "facts-line" },
          h("span", { class: `state ${kind}` }, stateIcon(kind), text.states[row.state] || words.readable(row.state)),
          row.head_branch && h("span", {}, h("code", {}, row.head_branch), row.target_branch && [" → ", h("code", {}, row.target_branch)]),
          row.author && h("span", { class: "muted" }, text.by(row.author)), row.is_fork && h("span", { class: "tag" }, text.fork))),
      h("div", { class: "actions" },
        row.state === "WAITING_FOR_APPROVAL" && button(text.approve(row.commit_id.slice(0, 8)), () => approve(state, place, row), { main: true, key: "approve", needs: ["POST", `/preview/${row.id}/approve`] }),
        inside && link(inside, h("span", { class: "button small" }, text.open)),
        row.state !== "ENDED" && menu(text.actionsOf(row.name), [button(words.remove.button, () => remove(state, place, row), { plain: true, danger: true, icon: "trash-2", needs: ["DELETE", `/preview/${row.id}`] })]))),
    row.address && h("p", {}, outside(row.address, row.address), copyButton(row.address)),
    text.abouts[row.state] && h("p", { class: row.state === "WAITING_FOR_APPROVAL" ? null : "muted" }, text.abouts[row.state]),
    row.problem && h("p", { class: "trouble" }, prose(row.problem)),
    h("p", { class: "muted fine facts-line" },
      row.deployed_commit_id && h("span", {}, text.deployed, " ", short(row.deployed_commit_id)),
      row.deployed_image_tag && h("span", {}, text.deployed, " ", h("code", {}, row.deployed_image_tag)),
      row.commit_id && row.commit_id !== row.deployed_commit_id && h("span", {}, text.newest, " ", short(row.commit_id)),
      row.ends_at && row.state !== "ENDED" && h("span", {}, text.ends, " ", ago(row.ends_at)),
      row.missing_secrets.length > 0 && h("span", { title: row.missing_secrets.join(", ") }, text.missing(row.missing_secrets.length))),
    row.events.length > 0 && h("details", {}, h("summary", {}, text.events), h("ol", { class: "pushes" }, [...row.events].reverse().map((event) => h("li", {}, ago(event.at), " ", prose(event.message))))));
}

async function create(state, place) {
  let kind = "pull_request";
  const number = h("input", { type: "number", min: 1, placeholder: "12" });
  const branch = h("input", { autocomplete: "off", spellcheck: "false", placeholder: "colours" });
  const image = h("input", { autocomplete: "off", spellcheck: "false", placeholder: "acme/shop" });
  const tag = h("input", { autocomplete: "off", spellcheck: "false", placeholder: "pr-12" });
  const fields = {
    pull_request: [field(text.number, number, text.numberHelp, { name: "pull_request" })],
    branch: [field(text.branch, branch, text.branchHelp, { name: "branch" })],
    image: [field(text.image, image, text.imageHelp, { name: "image_name" }), field(text.tag, tag, null, { name: "image_tag" })],
  };
  const body = {
    pull_request: () => ({ pull_request: Number(number.value) || undefined }),
    branch: () => ({ branch: branch.value.trim() }),
    image: () => ({ image_name: image.value.trim(), image_tag: tag.value.trim() }),
  };
  const show = () => Object.entries(fields).forEach(([name, nodes]) => nodes.forEach((node) => (node.hidden = name !== kind)));
  show();
  const send = async (finish) => {
    try {
      finish(await api.post(state.path, body[kind]()));
    } catch (error) {
      showError(error);
    }
  };
  const made = await dialog(text.create, (finish) => [
    h("p", {}, text.createWill),
    segments(text.of, [["pull_request", text.ofPull], ["branch", text.ofBranch], ["image", text.ofImage]], kind, (value) => ((kind = value), show())), Object.values(fields).flat(),
    h("div", { class: "dialog-actions" }, button(words.cancel, () => finish()), button(words.create, () => send(finish), { main: true })),
  ]);
  if (made) await again(state, place, text.asked);
}

async function again(state, place, told) {
  say(told);
  await state.read();
  place.update();
}

async function approve(state, place, row) {
  const about = [text.approveWill, row.missing_secrets.length ? text.approveSecrets(row.missing_secrets.join(", ")) : text.approveNoSecrets];
  if (!(await confirm(text.approveTitle(row.commit_id.slice(0, 8), row.author), about, { action: text.approve(row.commit_id.slice(0, 8)) }))) return;
  await api.post(`/preview/${row.id}/approve`, { commit_id: row.commit_id });
  await again(state, place, text.approved);
}

async function remove(state, place, row) {
  if (!(await confirm(words.remove.title(row.name), text.removeWill, { action: words.remove.button, danger: true }))) return;
  await api.delete(`/preview/${row.id}`);
  await again(state, place, words.remove.done(row.name));
}
