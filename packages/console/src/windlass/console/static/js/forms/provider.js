// A wizard in one dialog: which provider, how the secret is made there, and only the fields that it needs.

import { fill, h } from "../dom.js";
import { cards } from "../settings/part.js";

/**
 * `kinds`: [kind, name, about, logo]; `steps(kind)` says how to get what the fields ask for; `fields(kind)` makes { node, read() }.
 * Returns { node, read() } with `kind` in what is read.
 */
export function providers(label, kinds, name, steps, fields, first = kinds[0][0]) {
  const below = h("div", {});
  let chosen = first;
  let form;
  const choose = (kind) => {
    chosen = kind;
    form = fields(kind);
    const lines = steps(kind);
    fill(below, lines.length > 0 && h("ol", { class: "how" }, lines.map((line) => h("li", {}, line))), form.node);
  };
  choose(chosen);
  return { node: h("div", {}, h("div", { "data-field": name }, cards(label, kinds, chosen, choose)), below), read: () => ({ [name]: chosen, ...form.read() }) };
}
