// The form of a restriction of automatic deployments: whether changes at a path deploy, or only those, and the path.

import { h } from "../dom.js";
import { title } from "../format.js";
import { field } from "../parts.js";
import { cards } from "../settings/part.js";
import { organizationForms } from "../words_of_forms.js";

const text = organizationForms.restrictionForm;

export async function form({ values = {} } = {}) {
  let mode = values.mode || "EXCLUDE";
  const path = h("input", { value: values.value ?? "", placeholder: "docs", autocomplete: "off", spellcheck: "false", "aria-required": "true", oninput: (event) => (event.target.touched = true) });
  const modes = cards(text.mode, Object.entries(text.modes), mode, (chosen) => (mode = chosen));
  const node = h("div", {}, h("div", { "data-field": "mode" }, modes), field(text.path, path, text.pathHelp, { name: "value" }));
  const read = () => ({ mode, type: "PATH", value: path.value.trim() });
  const changes = () => Object.fromEntries(Object.entries(read()).filter(([name, value]) => value !== values[name]));
  return { node, read, changes };
}

/** The field of the first column. */
export const first = "value";

export const columns = [{ title: title("mode"), cell: ({ mode }) => text.modes[mode] }];
