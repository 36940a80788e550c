// Where the state of a Terraform module is kept.

import { h } from "../dom.js";
import { icon } from "../icons.js";
import { modules } from "../words_of_modules.js";
import { cards } from "./part.js";

const text = modules.state;
const KINDS = [["kubernetes", "hard-drive"], ["user_provided", "layers"]];

export const fields = ["backend"];

export function stateEditor(backend = {}, onchoose = () => {}) {
  let chosen = KINDS.map(([name]) => name).find((name) => backend[name]) || KINDS[0][0];
  const node = h("div", { "data-field": "backend" }, cards(text.title, KINDS.map(([name, sign]) => [name, text.kinds[name], text.abouts[name], icon(sign, "large")]), chosen, (name) => ((chosen = name), onchoose(name))));
  return { node, kind: () => chosen, read: () => ({ [chosen]: {} }) };
}

export function edit({ service }) {
  const moved = h("p", { class: "stale", role: "status" });
  const editor = stateEditor(service.backend, (kind) => (moved.textContent = kind === before ? "" : text.moved));
  const before = editor.kind();
  // Of the two, the one that is left is sent as null.
  const changes = () => (editor.kind() === before ? {} : { backend: { [before]: null, ...editor.read() } });
  return { title: text.title, changes, node: h("div", {}, editor.node, moved) };
}
