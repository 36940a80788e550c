// What kind of server a database is, in which version, and who reaches it.

import { api } from "../api.js";
import { fill, h } from "../dom.js";
import { title } from "../format.js";
import { logo } from "../icons.js";
import { field } from "../parts.js";
import { words } from "../words.js";

const text = words.settings.database;

export const fields = ["type", "version", "accessibility"];

export function edit({ document, service }) {
  const version = h("select", {}, h("option", { value: service.version }, service.version));
  const isPublic = h("input", { type: "checkbox", role: "switch", checked: service.accessibility === "PUBLIC" });
  const list = `/environment/${service.environment.id}/databaseConfiguration`;
  if (document.at("GET", list)) offer(list, version, service);
  const changes = () => {
    const found = {};
    if (version.value !== service.version) found.version = version.value;
    if (isPublic.checked !== (service.accessibility === "PUBLIC")) found.accessibility = isPublic.checked ? "PUBLIC" : "PRIVATE";
    return found;
  };
  return {
    title: text.title,
    node: h("div", {},
      h("p", { class: "product" }, logo(service.type, "large"), h("strong", {}, words.readable(service.type))),
      h("div", { class: "line narrow" }, field(title("version"), version, text.versionHelp, { name: "version" })),
      field(text.isPublic, isPublic, text.isPublicHelp, { isSwitch: true, name: "accessibility" })),
    changes,
  };
}

// The versions that the engine of the environment can run.
async function offer(list, select, { type, version }) {
  const { results } = await api.get(list).catch(() => ({ results: [] })); // Without the right to read them, the present one stays.
  const names = (results.find((other) => other.database_type === type)?.version || []).map(({ name }) => name);
  const chosen = select.value;
  fill(select, [...new Set([...names, version])].map((name) => h("option", { value: name }, name)));
  select.value = chosen;
}
