// An organization: what it has beside projects, in groups with how many there are, and its name.

import { api } from "../api.js";
import { h, own, prose } from "../dom.js";
import { loadDocument } from "../document.js";
import { hold } from "../edits.js";
import { familiesOf, familyOf } from "../families.js";
import { kindIcon } from "../icons.js";
import { button, head, link, panel, say } from "../parts.js";
import { save as saveEdited } from "../saving.js";
import * as named from "../settings/named.js";
import { words } from "../words.js";
import { organizationTexts as text } from "../words_of_organization.js";

const GROUPS = { access: ["member", "apiToken"], connections: ["gitToken", "containerRegistry", "webhook"], machines: ["cluster"] };
const KNOWN = Object.values(GROUPS).flat();

export async function load({ params }) {
  const path = `/organization/${params.organization}`;
  const [document, { data: organization, tag }] = await Promise.all([loadDocument(), api.tagged(path)]);
  const lists = document.familiesBelow(path).filter((list) => KNOWN.includes(familyOf(list)) || familiesOf(document, path).includes(list));
  const state = { path, document, organization, tag, lists, counts: {}, title: organization.name, form: formOf(organization) };
  const count = async () => {
    const found = await Promise.all(lists.map((list) => api.seen(`${path}/${familyOf(list)}`, (place) => api.get(place, { page_size: 1 }))));
    state.counts = Object.fromEntries(lists.map((list, index) => [familyOf(list), found[index] && (found[index].results.length && (found[index].pagination?.total_pages || found[index].results.length))]));
  };
  await count();
  return Object.assign(state, { refreshing: { refresh: count } });
}

const formOf = (organization) => hold(named.edit({ service: organization }));

// What Windlass calls, and can test.
const isConnection = (state, list) => Boolean(state.document.at("POST", `${list.path}/x/check`));

export function render(state, place) {
  const { path, organization, lists, form } = state;
  const further = lists.filter((list) => !KNOWN.includes(familyOf(list)));
  const others = further.filter((list) => !isConnection(state, list));
  const audit = row("audit", `${path}/audit`, words.audit.title, text.abouts.audit);
  const rows = (names) => names.map((name) => lists.find((list) => familyOf(list) === name)).filter(Boolean).map((list) => rowOf(state, list));
  return [
    head(organization.name, { about: text.about }),
    h("div", { class: "columns" },
      h("div", {}, group(text.groups.access, [...rows(GROUPS.access), audit]), group(text.groups.machines, rows(GROUPS.machines))),
      h("div", {}, group(text.groups.connections, [...rows(GROUPS.connections), ...further.filter((list) => isConnection(state, list)).map((list) => rowOf(state, list))]),
        panel(text.general, own(form.node), h("div", { class: "actions" }, button(words.save, () => save(state, place), { needs: ["PATCH", path] }))))),
    others.length > 0 && group(text.groups.others, others.map((list) => rowOf(state, list))),
  ];
}

const group = (heading, rows) => panel(heading, h("ul", { class: "plain doors" }, rows));

function rowOf({ path, document, counts }, list) {
  const name = familyOf(list);
  return row(name, `${path}/${name}`, document.titleOf(list), text.abouts[name] || prose(document.describe(list.tags[0])), counts[name]);
}

// The whole row leads to the page.
function row(name, to, heading, about, count) {
  return h("li", { key: name }, kindIcon(name), h("div", {}, link(to, heading), h("p", { class: "muted" }, about)), typeof count === "number" && h("span", { class: "muted number" }, text.count(count)));
}

async function save(state, place) {
  const changes = state.form.changes();
  if (!Object.keys(changes).length) return say(words.settings.nothingChanged);
  const answer = await saveEdited(state.path, changes, state.tag, state.organization);
  if (!answer) return;
  Object.assign(state, { organization: answer.data, tag: answer.tag, form: formOf(answer.data) });
  say(words.settings.saved);
  place.update();
}
