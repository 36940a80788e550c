// A copy of an environment or of a service: it has another name, and may be in another place.

import { api } from "./api.js";
import { h } from "./dom.js";
import { schemaForm } from "./forms.js";
import { button, dialog, showError } from "./parts.js";
import { inOrganization } from "./rights.js";
import { words } from "./words.js";

const text = words.clone;

/** Asks for the name and the place of a copy, makes it, and leads there. */
export async function clone(document, place, path, thing) {
  const schema = document.body(document.at("POST", `${path}/clone`));
  const choices = schema.properties.environment_id ? { environment_id: await environments() } : {};
  const form = schemaForm(document, schema, { values: { name: text.nameOf(thing.name), environment_id: thing.environment?.id }, choices });
  const made = await dialog(text.title(thing.name), (finish) => [
    h("p", {}, text.will),
    form.node,
    h("div", { class: "dialog-actions" }, button(words.cancel, () => finish()), button(text.button, () => api.post(`${path}/clone`, form.read()).then(finish, showError), { main: true })),
  ], { wide: true });
  if (made) await place.go(path.replace(/[^/]+$/, made.id));
}

async function environments() {
  const found = await Promise.all((await api.all(inOrganization("project"))).map(async (project) => (await api.all(`/project/${project.id}/environment`)).map(({ id, name }) => [id, `${project.name} / ${name}`])));
  return found.flat();
}
