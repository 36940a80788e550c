// The deployment stages of an environment, in their order, and the services in each.

import { api } from "../api.js";
import { h } from "../dom.js";
import { grip } from "../dragging.js";
import { kindIcon, serviceIcon } from "../icons.js";
import { button, confirm, dialog, field, head, link, menu, say, showError } from "../parts.js";
import { refusalOf } from "../rights.js";
import { pathOf } from "../services.js";
import { crumbs } from "../shell.js";
import { words } from "../words.js";
import { stages as text } from "../words_of_environments.js";

export async function load(place) {
  const base = `/environment/${place.params.parentId}`;
  const path = `${base}/deploymentStage`;
  const environment = await api.get(base);
  place.belongsTo(environment.organization);
  const state = { base, path, environment, title: `${text.title} · ${environment.name}` };
  state.read = async () => {
    const [rows, services] = await Promise.all([api.all(path), api.all(`/organization/${environment.organization.id}/services`, { environment_id: environment.id })]);
    Object.assign(state, { rows, services: new Map(services.map((service) => [service.id, service])) });
  };
  await state.read();
  return Object.assign(state, { refreshing: { refresh: state.read } });
}

export function render(state, place) {
  const { base, path, environment, rows } = state;
  return [
    crumbs([environment.name, base], [text.title]),
    head([kindIcon("deploymentStage"), text.title], { about: text.about, actions: [button(text.create, () => edit(state, place), { main: true, icon: "plus", needs: ["POST", path] })] }),
    h("ol", { class: "stages", "aria-label": text.title }, rows.map((stage, index) => h("li", { key: stage.id, "data-id": stage.id, "data-dragged": true, "data-takes": "stage service" }, card(state, place, stage, index)))),
  ];
}

function card(state, place, stage, index) {
  const { rows } = state;
  const own = `/deploymentStage/${stage.id}`;
  const move = (word, other, order, end) => (other ? act(state, place, () => api.put(`${own}/${word}/${other.id}`), text.moved(stage.name, order)) : say(end));
  const dropped = (id, isAfter) => arrange(state, place, stage, rows.find((other) => other.id === id), isAfter);
  const before = rows[index - 1], after = rows[index + 1]; // A button at an end stays, or it would lose the focus.
  return h("section", { class: "panel" },
    h("div", { class: "head" },
      h("div", {}, h("h2", {}, rows.length > 1 && !refusalOf(["PUT", `${own}/moveAfter/${stage.id}`]) && grip("stage", text.dragStage, dropped), `${stage.deployment_order}. ${stage.name}`), stage.description && h("p", { class: "muted" }, stage.description)),
      h("div", { class: "actions" },
        button(text.earlier, () => move("moveBefore", before, index, text.isFirst(stage.name)), { small: true, title: text.earlierOf(stage.name), key: "earlier", needs: ["PUT", `${own}/moveBefore/${(before || stage).id}`] }),
        button(text.later, () => move("moveAfter", after, index + 2, text.isLast(stage.name)), { small: true, title: text.laterOf(stage.name), key: "later", needs: ["PUT", `${own}/moveAfter/${(after || stage).id}`] }),
        menu(text.actionsOf(stage.name), [
          button(text.edit, () => edit(state, place, stage), { plain: true, needs: ["PUT", own] }),
          button(words.remove.button, () => remove(state, place, stage), { plain: true, danger: true, needs: ["DELETE", own] }),
        ]))),
    stage.services.length ? h("ul", { class: "staged" }, stage.services.map((placed) => row(state, place, stage, placed))) : h("p", { class: "muted" }, text.empty));
}

function row(state, place, stage, placed) {
  const service = state.services.get(placed.service_id);
  const name = service ? service.name : placed.service_id;
  const put = (target, is_skipped = placed.is_skipped) => api.put(`/deploymentStage/${target.id}/service/${placed.service_id}`, { is_skipped });
  const skip = (is_skipped) => act(state, place, () => put(stage, is_skipped), is_skipped ? text.leftOut(name) : text.included(name), () => put(stage, !is_skipped));
  const needs = (target) => ["PUT", `/deploymentStage/${target.id}/service/${placed.service_id}`];
  const dropped = (id) => {
    const target = state.rows.find((other) => other.id === id);
    return act(state, place, () => put(target), text.placed(name, target.name), () => put(stage));
  };
  return h("li", { key: placed.service_id, class: "facts-line", "data-dragged": true },
    state.rows.length > 1 && !refusalOf(needs(stage)) && grip("service", text.dragService, dropped, { isInside: true }),
    service && serviceIcon(service), service ? link(pathOf(service), name) : name,
    h("span", { class: "muted" }, words.readable(placed.service_type)), placed.is_skipped && h("span", { class: "tag" }, text.skipped),
    menu(text.actionsOf(name), [
      ...state.rows.filter(({ id }) => id !== stage.id).map((target) => button(text.moveTo(target.name), () => dropped(target.id), { plain: true, needs: needs(target) })),
      button(placed.is_skipped ? text.include : text.skip, () => skip(!placed.is_skipped), { plain: true, needs: needs(stage) }),
    ]));
}

// What was done can be undone from the notice.
async function act(state, place, send, told, undo) {
  await send();
  await state.read();
  place.update();
  say(told, { action: undo && button(text.undo, (event) => (event.currentTarget.closest(".notice").remove(), act(state, place, undo, text.undone)), { small: true }) });
}

// A stage that was dropped before or after another one.
function arrange(state, place, stage, target, isAfter) {
  const index = state.rows.indexOf(stage);
  const at = state.rows.indexOf(target) + (isAfter ? 1 : 0);
  const order = at > index ? at : at + 1;
  if (order === index + 1) return null;
  const own = `/deploymentStage/${stage.id}`;
  const back = index ? `${own}/moveAfter/${state.rows[index - 1].id}` : `${own}/moveBefore/${state.rows[1].id}`;
  return act(state, place, () => api.put(`${own}/${isAfter ? "moveAfter" : "moveBefore"}/${target.id}`), text.moved(stage.name, order), () => api.put(back));
}

async function edit(state, place, stage) {
  const name = h("input", { value: stage ? stage.name : "", autocomplete: "off", maxlength: 255 });
  const description = h("input", { value: stage ? stage.description : "", autocomplete: "off" });
  const send = async (finish) => {
    const body = { name: name.value.trim(), description: description.value };
    try {
      finish(await (stage ? api.put(`/deploymentStage/${stage.id}`, body) : api.post(state.path, body)));
    } catch (error) {
      showError(error);
    }
  };
  const made = await dialog(stage ? text.edit : text.create, (finish) => [
    field(words.columns.name, name, "", { name: "name" }), field(text.description, description, "", { name: "description" }),
    h("div", { class: "dialog-actions" }, button(words.cancel, () => finish()), button(stage ? words.save : words.create, () => send(finish), { main: true })),
  ]);
  if (made) await act(state, place, async () => {}, stage ? text.saved : text.created);
}

async function remove(state, place, stage) {
  if (!(await confirm(words.remove.title(stage.name), text.removeWill, { action: words.remove.button, danger: true }))) return;
  await act(state, place, () => api.delete(`/deploymentStage/${stage.id}`), words.remove.done(stage.name));
}
