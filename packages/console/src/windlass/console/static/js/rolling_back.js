// Rollbacks of services and environments: what differs is shown before anything changes.

import { api } from "./api.js";
import { h } from "./dom.js";
import { ago } from "./format.js";
import { dialog, say, table } from "./parts.js";
import { words } from "./words.js";

const text = words.rollback;

/** Shows what a rollback of a service changes. Resolves with the body of the request, or with nothing. */
export async function askForService(path, name, deployment, will) {
  const difference = await api.get(`${path}/rollbackDifference`, { deployment_id: deployment.id });
  const parts = [h("p", {}, will), !difference.settings_known && h("p", { class: "muted" }, text.unknown), changesOf(difference)];
  const settings = await ask(text.to(name, deployment.number), parts, goesBack(difference));
  return settings && { deployment_id: deployment.id, ...settings };
}

/** Asks to which deployment of an environment to go back, shows what differs, and does it. */
export async function rollBackEnvironment(path, name) {
  const [, ...entries] = (await api.get(`${path}/deploymentHistory`)).results;
  if (!entries.length) return say(text.none);
  const chosen = await dialog(text.title(name), (finish) => [
    h("p", {}, text.chooseEnvironment),
    h("ul", { class: "choose" }, entries.slice(0, 20).map((entry) => h("li", {}, h("button", { type: "button", class: "choice", onclick: () => finish(entry) },
      h("strong", {}, ago(entry.created_at)), h("span", { class: "about muted" }, [words.readable(entry.status), entry.triggered_by].filter(Boolean).join(" · ")))))),
    h("div", { class: "dialog-actions" }, h("button", { type: "button", class: "button", onclick: () => finish() }, words.cancel)),
  ]);
  if (!chosen) return;
  const difference = await api.get(`${path}/rollbackDifference`, { deployment_id: chosen.id });
  const settings = await ask(text.title(name), [h("p", {}, text.willOfEnvironment), changesOf(difference), difference.services.map(serviceOf)], goesBack(difference) || difference.services.some(goesBack));
  if (!settings) return;
  await api.post(`${path}/rollback`, { deployment_id: chosen.id, ...settings });
  say(text.done(name));
}

const goesBack = ({ changes, missing }) => missing.length > 0 || changes.some((change) => change.goes_back);

function serviceOf(service) {
  const about = service.reason || (service.is_deployed ? text.version(service.number, service.same_build) : text.same);
  return h("section", {}, h("h3", {}, service.service_name), h("p", { class: "muted" }, about), changesOf(service));
}

function changesOf({ changes, missing }) {
  return [
    missing.length > 0 && h("p", { class: "trouble", role: "alert" }, text.missing(missing)),
    changes.length > 0 && table([
      { title: words.columns.name, cell: (change) => h("code", {}, change.key) },
      { title: text.present, cell: (change) => valueOf(change, change.present, "ADD") },
      { title: text.former, cell: (change) => [h("span", { class: "muted" }, "→ "), valueOf(change, change.former, "REMOVE")] },
      { title: "", wide: true, cell: (change) => h("span", { class: "muted" }, change.reason || "") },
    ], changes, { key: (change) => `${change.scope} ${change.key}`, label: text.changes }),
  ];
}

function valueOf(change, value, absent) {
  if (change.change === absent) return h("span", { class: "muted" }, text.absent);
  if (change.subject !== "SECRET") return h("code", {}, value);
  return h("span", { class: "muted" }, "••••••••", change.change === "CHANGE" && absent === "REMOVE" ? ` ${text.changed}` : h("span", { class: "unseen" }, text.secret));
}

function ask(heading, parts, mayKeep) {
  return dialog(heading, (finish) => {
    const keep = h("input", { type: "checkbox" });
    return [
      parts,
      mayKeep && h("label", { class: "inline" }, keep, " ", text.keep),
      h("div", { class: "dialog-actions" },
        h("button", { type: "button", class: "button", onclick: () => finish() }, words.cancel),
        h("button", { type: "button", class: "button main", onclick: () => finish(keep.checked ? { settings: "present" } : {}) }, text.button)),
    ];
  }, { wide: true, isQuestion: true });
}
