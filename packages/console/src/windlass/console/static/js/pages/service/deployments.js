// All deployments of a service, with the way back to each that succeeded.

import { api } from "../../api.js";
import { h } from "../../dom.js";
import { commandFor } from "../../equivalents.js";
import { button, confirm, empty, table } from "../../parts.js";
import { isVersion, openNewest, willOf } from "../../services.js";
import { words } from "../../words.js";
import { serving } from "../service.js";
import { deploymentColumns } from "./overview.js";

export const load = async () => ({ more: [], page: 1 });

export function render(state, place) {
  const { path, deployments, content } = state;
  const seen = new Set(deployments.map((deployment) => deployment.id));
  const rows = [...deployments, ...content.more.filter((deployment) => !seen.has(deployment.id))];
  const now = serving(state)?.id;
  if (!rows.length) return empty(words.serviceOverview.neverDeployed, null, commandFor("windlass deploy", state.service.name));
  const back = { title: "", cell: (deployment) => (deployment.id === now ? h("span", { class: "tag" }, state.status.state === "STOPPED" ? words.deployment.present : words.deployment.serves) : goBack(state, place, deployment)) };
  return [
    table([...deploymentColumns(state), back], rows, { to: (deployment) => `${path}/deployments/${deployment.id}`, label: words.tabs.deployments }),
    rows.length >= 20 * content.page && button(words.showMore, () => more(state, place)),
  ];
}

function goBack(state, place, deployment) {
  if (!isVersion(deployment) || !state.can("rollback")) return null;
  return button(words.rollback.here, () => rollBackTo(state, place, deployment), { small: true, needs: ["POST", `${state.path}/rollback`] });
}

async function rollBackTo({ path, service }, place, deployment) {
  if (!(await confirm(words.rollback.to(service.name, deployment.number), willOf(path, "rollback", words.rollback.will), { action: words.rollback.button }))) return;
  await api.post(`${path}/rollback`, { deployment_id: deployment.id });
  await openNewest(place, path);
}

async function more(state, place) {
  state.content.page++;
  state.content.more.push(...(await api.get(`${state.path}/deployment`, { page: state.content.page, page_size: 20 })).results);
  place.update();
}
