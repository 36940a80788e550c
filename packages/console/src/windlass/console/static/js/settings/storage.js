// What outlives the instances of a service: folders with a size each, or the storage of a database.

import { h } from "../dom.js";
import { field } from "../parts.js";
import { forms } from "../words_of_settings.js";
import { amount, differs } from "./part.js";
import { rowList } from "./rows.js";

const text = forms.storage;
const USUAL = 10;

export const fields = ["storage"];

export function edit({ service }) {
  return typeof service.storage === "number" ? ofDatabase(service) : folders(service.storage || []);
}

function sized(value, label, help, name) {
  const { input, node, read } = amount(value, text.gb, { min: 1 });
  const made = field(label, input, help, { name });
  made.insertBefore(node, made.querySelector(".help"));
  node.prepend(input);
  return { node: made, read };
}

function ofDatabase({ storage }) {
  const size = sized(storage, text.database, text.databaseHelp, "storage");
  return { title: text.database, node: h("div", { class: "line narrow" }, size.node), changes: () => (size.read() === storage ? {} : { storage: size.read() }) };
}

function folders(known) {
  const lost = h("p", { class: "stale", hidden: true }, text.removed);
  let list = null; // Rows come before the list is there.
  const tell = () => (lost.hidden = !list || known.every(({ id }) => list.rows.some((row) => row.id === id)));
  list = rowList(known, folder, { none: text.none, onchange: tell });
  const start = list.read();
  return { title: text.title, about: text.about, node: h("div", { "data-field": "storage" }, list.node, lost), changes: () => (differs(list.read(), start) ? { storage: list.read() } : {}) };
}

function folder({ id, mount_point: path = "", size = USUAL, type }) {
  const place = h("input", { value: path, placeholder: "/data", class: "code", autocomplete: "off", spellcheck: "false", oninput: (event) => (event.target.touched = true) });
  const room = sized(size, text.size, "", "size");
  return {
    id,
    node: h("div", { class: "line" }, field(text.folder, place, "", { name: "mount_point" }), room.node),
    read: () => ({ ...(id && { id, type }), mount_point: place.value.trim(), size: room.read() ?? undefined }),
  };
}
