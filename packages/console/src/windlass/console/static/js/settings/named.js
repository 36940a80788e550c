// What a service is called, and what it is for.

import { h } from "../dom.js";
import { title } from "../format.js";
import { field } from "../parts.js";
import { words } from "../words.js";

export const fields = ["name", "description"];

export function edit({ service }) {
  const touch = (event) => (event.target.touched = true);
  const name = h("input", { value: service.name, autocomplete: "off", spellcheck: "false", oninput: touch });
  const description = h("textarea", { rows: 1, value: service.description || "", oninput: touch });
  const changes = () => {
    const found = {};
    if (name.value !== service.name) found.name = name.value;
    if (description.value !== (service.description || "")) found.description = description.value;
    return found;
  };
  return { title: words.settings.named, node: h("div", { class: "line" }, field(words.columns.name, name, "", { name: "name" }), field(title("description"), description, "", { name: "description" })), changes };
}
