// Saves edits with the tag of what was read, so that a change of another person is never overwritten unseen.

import { api } from "./api.js";
import { h } from "./dom.js";
import { confirm } from "./parts.js";
import { words } from "./words.js";

const text = words.conflict;

/** Sends changes; resolves with { data, tag }, or null if there was a conflict and its other side was kept. */
export async function save(path, changes, tag, before = {}) {
  for (;;) {
    try {
      return await api.patch(path, changes, tag);
    } catch (error) {
      if (error.status !== 412) throw error;
    }
    const now = await api.tagged(path);
    if (!(await confirm(text.title, [text.will, comparison(changes, now.data, before)], { action: text.saveMine, wide: true }))) return null;
    tag = now.tag;
  }
}

// Fields that both changed come first; those that only the other person changed are kept in any case.
function comparison(changes, now, before) {
  const names = Object.keys(changes);
  const others = Object.keys(now).filter((name) => !names.includes(name) && name in before && name !== "updated_at" && typeof now[name] !== "object" && differs(now[name], before[name]));
  const rows = [...names.map((name) => [name, now[name], changes[name]]), ...others.map((name) => [name, now[name], undefined])];
  return h("div", { class: "table-box" }, h("table", { class: "rows" },
    h("thead", {}, h("tr", {}, [text.field, text.theirs, text.mine].map((heading) => h("th", { scope: "col" }, heading)))),
    h("tbody", {}, rows.map(([name, theirs, mine]) => h("tr", {}, h("td", {}, h("code", {}, name)), h("td", {}, shown(theirs)), h("td", {}, mine === undefined ? h("span", { class: "muted" }, text.stays) : shown(mine)))))));
}

const differs = (one, other) => JSON.stringify(one ?? null) !== JSON.stringify(other ?? null);

const shown = (value) => (value === null || value === undefined || value === "" ? h("span", { class: "muted" }, "–") : h("code", { class: "value" }, typeof value === "string" ? value : JSON.stringify(value)));
