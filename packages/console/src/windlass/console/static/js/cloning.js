// A copy of an environment or of a service: it has another name, and may be in another place.

import { api } from "./api.js";
import { h } from "./dom.js";
import { schemaForm } from "./forms.js";
import { button, dialog, facts, showError, table } from "./parts.js";
import { inOrganization } from "./rights.js";
import { words } from "./words.js";

const text = words.clone;

/** Asks for the name and the place of a copy, makes it, and leads there. */
export async function clone(document, place, path, thing) {
  const schema = document.body(document.at("POST", `${path}/clone`));
  const choices = schema.properties.environment_id ? { environment_id: await environments() } : {};
  const form = schemaForm(document, schema, { values: { name: text.nameOf(thing.name), environment_id: thing.environment?.id }, choices });
  const shown = h("div", { "aria-live": "polite" });
  const preview = async () => shown.replaceChildren(...contents(await api.post(`${path}/clonePreview`, form.read())));
  const made = await dialog(text.title(thing.name), (finish) => [
    h("p", {}, text.will),
    form.node,
    shown,
    h("div", { class: "dialog-actions" }, button(words.cancel, () => finish()), button(text.preview, () => preview().catch(showError)), button(text.button, () => api.post(`${path}/clone`, form.read()).then(finish, showError), { main: true })),
  ], { wide: true });
  if (made) await place.go(path.replace(/[^/]+$/, made.id));
}

// What the copy would have, and what it would lack.
function contents({ stages, variables, services, not_cloned: lacking }) {
  const keys = (list) => list.map(({ key, is_secret: isSecret }) => (isSecret ? `${key} (${text.secret})` : key)).join(", ");
  return [
    h("h3", {}, text.comes),
    facts([[text.stages, stages.join(", ")], [words.tabs.variables, keys(variables)]]),
    table([
      { title: words.columns.name, cell: (service) => h("strong", {}, service.name) },
      { title: text.stage, cell: (service) => service.stage },
      { title: words.tabs.variables, wide: true, cell: (service) => keys(service.variables) },
      { title: text.settings, wide: true, cell: (service) => [...service.advanced_settings, ...service.deployment_restrictions].join(", ") },
    ], services, { label: text.comes }),
    h("h3", {}, text.lacks),
    table([
      { title: text.service, cell: (part) => part.service_name },
      { title: words.columns.name, cell: (part) => part.name },
      { title: "", wide: true, cell: (part) => h("span", { class: "muted" }, part.reason) },
    ], lacking, { key: (part) => `${part.kind} ${part.service_name} ${part.name}`, label: text.lacks }),
  ];
}

async function environments() {
  const found = await Promise.all((await api.all(inOrganization("project"))).map(async (project) => (await api.all(`/project/${project.id}/environment`)).map(({ id, name }) => [id, `${project.name} / ${name}`])));
  return found.flat();
}
