// Whether a push deploys a service, and whether pull requests get previews of it: for kinds whose source is another part.

import { h } from "../dom.js";
import { field } from "../parts.js";
import { words } from "../words.js";
import { forms } from "../words_of_settings.js";

const text = words.settings.source;
const HELPS = { auto_deploy: [text.automatic, text.automaticHelp], auto_preview: [forms.source.previews, forms.source.previewsHelp] };

export const fields = ["auto_deploy", "auto_preview"];

export function edit({ schema, service }) {
  const rows = fields.filter((name) => schema.properties[name]).map((name) => [name, h("input", { type: "checkbox", role: "switch", checked: Boolean(service[name]) })]);
  const changes = () => Object.fromEntries(rows.filter(([name, box]) => box.checked !== Boolean(service[name])).map(([name, box]) => [name, box.checked]));
  return { title: forms.source.pushes, changes, node: h("div", {}, rows.map(([name, box]) => field(...HELPS[name].toSpliced(1, 0, box), { isSwitch: true, name }))) };
}
