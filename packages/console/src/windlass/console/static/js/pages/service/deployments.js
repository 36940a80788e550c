// All deployments of a service, with the way back to each that succeeded.

import { api } from "../../api.js";
import { h } from "../../dom.js";
import { commandFor } from "../../equivalents.js";
import { button, empty, table } from "../../parts.js";
import { isVersion, rollBackTo } from "../../services.js";
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
  return button(words.rollback.here, () => rollBackTo(place, state.path, state.service.name, deployment), { small: true, needs: ["POST", `${state.path}/rollback`] });
}

async function more(state, place) {
  state.content.page++;
  state.content.more.push(...(await api.get(`${state.path}/deployment`, { page: state.content.page, page_size: 20 })).results);
  place.update();
}
