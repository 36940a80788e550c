// An organization: its settings, and everything that it has beside projects, drawn from the API.

import { api } from "../api.js";
import { h, own } from "../dom.js";
import { loadDocument } from "../document.js";
import { schemaForm } from "../forms.js";
import { button, head, link, panel, say } from "../parts.js";
import { words } from "../words.js";

const text = words.organizationPage;
const APART = ["inviteMember", "project", "services", "availableRole", "events"];

export async function load({ params }) {
  const path = `/organization/${params.organization}`;
  const [document, { data: organization, tag }] = await Promise.all([loadDocument(), api.tagged(path)]);
  const lists = document.listsBelow(path).filter((list) => !APART.includes(list.path.split("/").pop()));
  return { path, document, organization, tag, lists, title: organization.name, form: schemaForm(document, document.body(document.at("PATCH", path)), { values: organization, only: ["name", "description", "website_url", "icon_uri"] }) };
}

export function render(state, place) {
  const { path, organization, lists, document, form } = state;
  return [
    head(organization.name, { about: text.about }),
    h("div", { class: "cards" },
      lists.map((list) => h("article", { class: "card", key: list.id }, h("h2", {}, link(`${path}/${list.path.split("/").pop()}`, document.titleOf(list))), h("p", { class: "muted" }, text.families[list.path.split("/").pop()] || document.describe(list.tags[0])))),
      h("article", { class: "card" }, h("h2", {}, link(`${path}/audit`, words.audit.title)), h("p", { class: "muted" }, words.audit.about))),
    panel(text.general, own(form.node), h("div", { class: "actions" }, button(words.save, () => save(state, place), { main: true }))),
  ];
}

async function save(state) {
  const changes = state.form.changes();
  if (!Object.keys(changes).length) return say(words.settings.nothingChanged);
  const answer = await api.patch(state.path, changes, state.tag);
  state.tag = answer.tag;
  say(words.settings.saved);
}
