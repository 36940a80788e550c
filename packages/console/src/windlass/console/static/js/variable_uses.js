// Which services use a variable, and which of them a change makes out of date.

import { api } from "./api.js";
import { h } from "./dom.js";
import { serviceIcon } from "./icons.js";
import { button, dialog, empty, link, table } from "./parts.js";
import { pathOf } from "./services.js";
import { words } from "./words.js";

const text = words.variables;

/** Shows the services that see a variable of a level. */
export async function showUses({ path }, row) {
  const answer = await api.get(`${path}/variableUse`, { key: row.key });
  await dialog(text.usesOf(row.key), (finish) => [
    answer.services.length ? listOf(answer.services) : empty(text.noUses),
    !answer.is_complete && h("p", { class: "muted" }, text.usesEnd),
    h("div", { class: "dialog-actions" }, button(words.close, () => finish(), { main: true })),
  ], { wide: true });
}

function listOf(services) {
  return table([
    { title: words.columns.name, cell: (one) => [serviceIcon(one), " ", link(pathOf({ ...one, id: one.service_id }), one.service_name)] },
    { title: text.useColumn, wide: true, cell: (one) => useOf(one) },
    { title: text.ifChanged, cell: (one) => (one.becomes_out_of_date ? h("span", { class: "tag" }, text.restarts) : h("span", { class: "muted" }, text.stays)) },
  ], services, { key: (one) => one.service_id, label: text.uses });
}

function useOf({ used_in: keys, is_overridden: isOverridden }) {
  if (keys.length) return [text.usedIn, " ", keys.map((key, index) => [index > 0 && ", ", h("code", {}, key)])];
  return h("span", { class: "muted" }, isOverridden ? text.anotherValue : text.getsIt);
}
