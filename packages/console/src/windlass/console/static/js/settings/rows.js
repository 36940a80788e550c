// A list of rows in the settings, such as ports: each can be deleted, and others are added.

import { h } from "../dom.js";
import { button } from "../parts.js";
import { words } from "../words.js";

/** `make(value)` returns { node, read() } for one row. `none`: said where there is no row. `onchange` is called after rows come and go. */
export function rowList(values, make, { none, onchange = () => {} }) {
  const rows = [];
  const box = h("div", { class: "items" });
  const nothing = h("p", { class: "muted" }, none);
  const show = () => ((nothing.hidden = rows.length > 0), onchange());
  const add = (value) => {
    const row = make(value || {});
    const node = h("div", { class: "item with-action" }, row.node, button(words.remove.button, () => (rows.splice(rows.indexOf(row), 1), node.remove(), show()), { small: true, plain: true }));
    rows.push(row);
    box.append(node);
    show();
    return node;
  };
  values.forEach(add);
  show();
  const addOne = () => add().querySelector("input")?.focus();
  return { node: h("div", {}, nothing, box, button(words.add, addOne, { small: true, icon: "plus" })), rows, read: () => rows.map((row) => row.read()) };
}
