// The resources in the state of a Terraform module: each with its attributes.

import { api } from "../../api.js";
import { h } from "../../dom.js";
import { ago } from "../../format.js";
import { button, codeBlock, dialog, empty, facts, link, table } from "../../parts.js";
import { words } from "../../words.js";
import { modules } from "../../words_of_modules.js";

const text = modules.resources;
const MANY = 10;
const SHORT = 200;

export async function load(state) {
  const content = { search: "" };
  content.read = async () => void (content.rows = await api.all(`${state.path}/terraformResources`));
  await content.read();
  return Object.assign(content, { refreshing: { refresh: content.read } });
}

export function render({ content, path }, place) {
  const { rows, search } = content;
  if (!rows.length) return empty(text.empty, link(`${path}/plan`, h("span", { class: "button main" }, text.toPlan)));
  const found = rows.filter(({ address }) => address.toLowerCase().includes(search.toLowerCase()));
  return [
    rows.length > MANY && h("div", { class: "tools" }, h("input", { type: "search", placeholder: text.search, "aria-label": text.search, value: search, oninput: (event) => ((content.search = event.target.value), place.update()) })),
    table([
      { title: text.address, wide: true, cell: (row) => [h("code", {}, row.address), row.mode === "data" && [" ", h("span", { class: "tag" }, text.isData)]] },
      { title: text.provider, cell: (row) => h("span", { class: "muted" }, row.provider.split("/").slice(-2).join("/")) },
      { title: text.asOf, cell: (row) => ago(row.extracted_at) },
      { title: "", kind: "number", cell: (row) => button(words.whole, () => show(row), { small: true, plain: true }) },
    ], found, { label: words.tabs.resources }),
  ];
}

// Short attributes as rows; all of them as JSON, to be copied.
function show({ address, attributes }) {
  const plain = Object.entries(attributes || {}).filter(([, value]) => value !== null && value !== "" && String(JSON.stringify(value)).length < SHORT);
  return dialog(address, (finish) => [
    facts(plain.map(([name, value]) => [h("code", {}, name), h("code", { class: "value" }, typeof value === "string" ? value : JSON.stringify(value))])),
    h("details", {}, h("summary", {}, text.asJson), codeBlock(JSON.stringify(attributes, null, 2))),
    h("div", { class: "dialog-actions" }, button(words.close, () => finish(), { main: true }))], { wide: true });
}
