// The push webhook of a service's repository: its state, ways to set it up, and what the last pushes led to.

import { api } from "../api.js";
import { fill, h, prose } from "../dom.js";
import { ago, exactTime } from "../format.js";
import { button, code, confirm, dialog } from "../parts.js";
import { words } from "../words.js";

const text = words.settings.source.webhook;
const SHOWN = 5;

/** A section that reads its state by itself, because the git server may take a moment to answer. */
export function pushWebhook(service) {
  const base = `/service/${service}`;
  const state = h("p", { role: "status" }, text.reading);
  const note = h("p", { class: "help" });
  const pushes = h("div", {});
  const show = (status) => {
    fill(state, h("strong", {}, text.states[status.status] || status.status));
    fill(note, prose(status.message || text.abouts[status.status] || ""));
  };
  const load = async () => {
    const [status, account] = await Promise.all([api.get(`${base}/gitWebhookStatus`), api.get(`${base}/gitPush`)]);
    show(status);
    fill(pushes, recent(account.results.slice(0, SHOWN)));
  };
  const setUp = async () => show(await api.post(`${base}/gitWebhook/sync`));
  const enter = async () => {
    const { url } = await api.get(`${base}/gitWebhook`);
    if (url && !(await confirm(text.byHand, text.replaces, { action: text.byHand }))) return;
    await showByHand(await api.post(`${base}/gitWebhook`));
    await load();
  };
  load().catch(() => fill(state, text.unknown)); // The settings can be changed without it.
  return h("section", { class: "probe" }, h("h3", {}, text.title), state, note,
    h("div", { class: "actions" },
      button(text.setUp, setUp, { needs: ["POST", `${base}/gitWebhook/sync`], icon: "webhook" }),
      button(text.byHand, enter, { needs: ["POST", `${base}/gitWebhook`], plain: true })),
    pushes);
}

function recent(rows) {
  if (!rows.length) return h("p", { class: "muted" }, text.none);
  return h("ul", { class: "pushes", "aria-label": text.recent }, rows.map((row) =>
    h("li", {}, h("time", { datetime: row.arrived_at, title: exactTime(row.arrived_at) }, ago(row.arrived_at)), " ",
      row.branch && h("code", {}, row.branch), " ", row.commit_id && h("code", { title: row.commit_id }, row.commit_id.slice(0, 7)), " ", row.message)));
}

const showByHand = (made) => dialog(text.byHand, (finish) => [
  h("p", {}, text.enter), made.warning && h("p", { class: "help" }, made.warning),
  h("h3", {}, text.url), code(made.url), h("h3", {}, text.secret), code(made.secret),
  h("div", { class: "dialog-actions" }, button(words.shownOnce.done, () => finish(), { main: true })),
]);
