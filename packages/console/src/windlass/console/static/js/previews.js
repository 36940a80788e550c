// Previews of an environment: the switches of its rule, and the link from a preview to its pull request.

import { api } from "./api.js";
import { h } from "./dom.js";
import { schemaForm } from "./forms.js";
import { button, dialog, outside, say, showError } from "./parts.js";
import { words } from "./words.js";

const text = words.previews;

/** What an environment is the preview of; null for others. */
export function previewOf({ preview }) {
  if (!preview) return null;
  return [" ", preview.url ? outside(preview.url, text.pullRequest(preview.pull_request)) : h("span", { class: "muted" }, text.preview)];
}

/** Asks whether pull requests get previews of an environment. */
export async function choosePreviews(document, path, environment) {
  const rule = `${path}/deploymentRule`;
  const values = await api.get(rule);
  const form = schemaForm(document, document.body(document.at("PUT", `${rule}/${values.id}`)), { values, only: ["auto_preview", "on_demand_preview"] });
  const run = async (finish) => {
    try {
      finish(await api.put(`${rule}/${values.id}`, form.read()));
    } catch (error) {
      showError(error);
    }
  };
  const saved = await dialog(text.title(environment.name), (finish) => [form.node, h("div", { class: "dialog-actions" }, button(words.cancel, () => finish()), button(words.save, () => run(finish), { main: true }))]);
  if (saved) say(words.settings.saved);
}
