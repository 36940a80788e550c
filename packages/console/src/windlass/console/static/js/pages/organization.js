// An organization: its settings, and everything that it has beside projects, drawn from the API.

import { api } from "../api.js";
import { h, own } from "../dom.js";
import { loadDocument } from "../document.js";
import { hold } from "../edits.js";
import { schemaForm } from "../forms.js";
import { familyCards } from "../families.js";
import { kindIcon } from "../icons.js";
import { button, head, link, panel, say } from "../parts.js";
import { save as saveEdited } from "../saving.js";
import { words } from "../words.js";

const text = words.organizationPage;

export async function load({ params }) {
  const path = `/organization/${params.organization}`;
  const [document, { data: organization, tag }] = await Promise.all([loadDocument(), api.tagged(path)]);
  return { path, document, organization, tag, title: organization.name, form: formOf(document, path, organization) };
}

const formOf = (document, path, values) => hold(schemaForm(document, document.body(document.at("PATCH", path)), { values, only: ["name", "description", "website_url"] }));

export function render(state, place) {
  const { path, organization, document, form } = state;
  return [
    head(organization.name, { about: text.about }),
    familyCards(document, path, h("article", { class: "card" }, h("h2", {}, kindIcon("audit"), link(`${path}/audit`, words.audit.title)), h("p", { class: "muted" }, words.audit.about))),
    panel(text.general, own(form.node), h("div", { class: "actions" }, button(words.save, () => save(state, place), { main: true, needs: ["PATCH", path] }))),
  ];
}

async function save(state, place) {
  const changes = state.form.changes();
  if (!Object.keys(changes).length) return say(words.settings.nothingChanged);
  const answer = await saveEdited(state.path, changes, state.tag, state.organization);
  if (!answer) return;
  Object.assign(state, { organization: answer.data, tag: answer.tag, form: formOf(state.document, state.path, answer.data) });
  say(words.settings.saved);
  place.update();
}
