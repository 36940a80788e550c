// Actions on services: each says beforehand what it will do.

import { api } from "./api.js";
import { h } from "./dom.js";
import { forgetEdits } from "./edits.js";
import { ago } from "./format.js";
import { confirm, dialog, say, link } from "./parts.js";
import { askForService } from "./rolling_back.js";
import { words } from "./words.js";

/** What an action will do: services of some kinds do something else than others. */
export const willOf = (path, action, usual) => words.kinds[path.split("/")[1].toUpperCase()]?.[action] || usual;

/** True for a deployment that leaves no version behind, such as a plan or a destruction of resources. */
export const onlyLooks = ({ status_details: details }) => /PLAN_ONLY|UNLOCK|DESTROY/.test(details?.sub_action || "");

export const pathOf = (service) => `/${service.service_type.toLowerCase()}/${service.id}`;

/** Makes the organization of a project, an environment or a service the present one. Resolves with the environment of a service, if it may be seen. */
export async function enterOrganizationOf(place, thing) {
  const environment = thing.environment && (await api.seen(`/environment/${thing.environment.id}`));
  const organization = thing.organization || environment?.organization;
  if (organization) place.belongsTo(organization);
  return environment;
}

/** Deploys, and leads to the deployment. */
export async function deploy(place, path, body = {}) {
  await api.post(`${path}/deploy`, body);
  await openNewest(place, path);
}

/** Sets variables of a service that was created just now, and deploys it. If one of them fails, its page is open: it is there. */
export async function finish(place, path, { variables = [], thenDeploy }) {
  forgetEdits();
  let page = `${path}/variables`;
  try {
    for (const [key, value] of variables) await api.post(`${path}/environmentVariable`, { key, value });
    page = path;
    if (thenDeploy) await api.post(`${path}/deploy`);
  } catch (error) {
    await place.go(page);
    throw error;
  }
  return thenDeploy ? openNewest(place, path) : place.go(path);
}

export async function openNewest(place, path) {
  const { results } = await api.get(`${path}/deployment`, { page_size: 1 });
  if (results[0]) await place.go(`${path}/deployments/${results[0].id}`);
}

/** Asks, does it, and says what was done. */
export async function act(place, path, name, { action, danger, typed } = {}) {
  const about = words.actions[action];
  if (!(await confirm(about.title(name), willOf(path, action, about.will), { action: about.button, danger, name: typed && name }))) return;
  await api.post(`${path}/${action}`);
  say(about.done(name));
}

/** True for a deployment to which a service can go back: one that made a version, and is no command that ran once. */
export const isVersion = (deployment) => deployment.status === "SUCCEEDED" && Boolean(version(deployment)) && !deployment.command && !onlyLooks(deployment);

export async function rollBack(place, path, name, deployments, present) {
  const choices = deployments.filter((other) => isVersion(other) && other.id !== present);
  const now = deployments.find((other) => other.id === present);
  if (!choices.length) return say(words.rollback.none);
  const chosen = await dialog(words.rollback.title(name), (finish) => [
    h("p", {}, willOf(path, "rollback", words.rollback.will)),
    h("ul", { class: "choose" }, choices.slice(0, 20).map((other) => h("li", {}, h("button", { type: "button", class: "choice", onclick: () => finish(other) },
      h("strong", {}, `v${other.number}`), " ", h("code", {}, version(other)), " ", other.commit?.message?.split("\n")[0] || "",
      h("span", { class: "about muted" }, [words.doneBy(other, ""), other.commit?.author_name || other.triggered_by, now && (version(other) === version(now) ? words.rollback.sameBuild : words.rollback.otherBuild)].filter(Boolean).join(" · "), " · ", ago(other.finished_at)))))),
    h("div", { class: "dialog-actions" }, h("button", { type: "button", class: "button", onclick: () => finish() }, words.cancel)),
  ]);
  if (!chosen) return;
  await rollBackTo(place, path, name, chosen);
}

/** Shows what differs from an earlier deployment, and goes back to it. */
export async function rollBackTo(place, path, name, deployment) {
  const body = await askForService(path, name, deployment, willOf(path, "rollback", words.rollback.will));
  if (!body) return;
  await api.post(`${path}/rollback`, body);
  await openNewest(place, path);
}

/** Deletes a service: its name has to be typed. */
export async function remove(place, path, name, back) {
  if (!(await confirm(words.remove.title(name), willOf(path, "remove", words.remove.will), { action: words.remove.button, danger: true, name }))) return;
  await api.delete(path);
  forgetEdits();
  say(words.remove.done(name));
  await place.go(back);
}

export function version(deployment) {
  return (deployment.git_commit_id || "").slice(0, 8) || deployment.image_tag || "";
}

/** A commit: its short id and the first line of its message. */
export function commitLine(deployment) {
  const { commit } = deployment;
  const page = commit?.commit_page_url || "";
  const id = h("code", {}, version(deployment));
  return h("span", { class: "commit" }, /^https:\/\//.test(page) ? h("a", { href: page, target: "_blank", rel: "noreferrer noopener" }, id) : id, " ", commit?.message?.split("\n")[0] || "");
}

export function deploymentLink(path, deployment, ...children) {
  return link(`${path}/deployments/${deployment.id}`, ...children);
}
