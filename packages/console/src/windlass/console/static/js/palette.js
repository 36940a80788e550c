// Search of everything by name, and every action of the API: `/` and Ctrl-K.

import { api } from "./api.js";
import { fill, h } from "./dom.js";
import { loadDocument } from "./document.js";
import { familiesOf, familyOf, nameOf } from "./families.js";
import { refusalOf } from "./rights.js";
import { icon } from "./icons.js";
import { pathOf } from "./services.js";
import { serviceKind, dot } from "./states.js";
import { title } from "./format.js";
import { words } from "./words.js";

const MOST = 50;
let isOpen = false;

export async function openPalette(place, { actions = false } = {}) {
  if (isOpen) return;
  isOpen = true;
  const before = document.activeElement;
  let entries = fixed(place);
  let shown = [];
  let chosen = 0;
  const list = h("ul", { role: "listbox", id: "palette-list", "aria-label": words.results });
  const input = h("input", { type: "text", role: "combobox", "aria-expanded": "true", "aria-controls": "palette-list", "aria-label": words.search, placeholder: actions ? words.palettePlaceholder : words.searchPlaceholder, autocomplete: "off", spellcheck: "false" });
  const hint = h("p", { class: "muted hint", role: "status" }, words.paletteHint);
  const node = h("dialog", { class: "palette", "aria-label": words.search }, input, list, hint);

  const draw = () => {
    shown = match(entries, input.value).slice(0, MOST);
    chosen = Math.min(chosen, Math.max(0, shown.length - 1));
    fill(list, shown.length ? shown.map(line) : h("li", { class: "muted" }, words.nothingFound));
    list.children[chosen]?.scrollIntoView({ block: "nearest" });
    input.setAttribute("aria-activedescendant", shown.length ? `palette-${chosen}` : "");
  };
  const line = (entry, index) =>
    h("li", { role: "option", id: `palette-${index}`, "aria-selected": String(index === chosen), onclick: () => open(entry), onmousemove: () => index !== chosen && ((chosen = index), draw()) },
      entry.glyph?.() || icon(entry.isAction ? "zap" : entry.icon || "file-text", "muted"), h("span", { class: "name" }, entry.name), h("span", { class: "muted" }, entry.about));
  const open = (entry) => {
    node.close();
    place.go(entry.to);
  };
  input.addEventListener("input", () => ((chosen = 0), draw()));
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      chosen = (chosen + (event.key === "ArrowDown" ? 1 : shown.length - 1)) % Math.max(1, shown.length);
      draw();
      event.preventDefault();
    } else if (event.key === "Enter" && shown[chosen]) {
      open(shown[chosen]);
      event.preventDefault();
    }
  });
  node.addEventListener("mousedown", (event) => event.target === node && node.close());
  node.addEventListener("close", () => ((isOpen = false), node.remove(), before?.focus?.()));
  document.body.append(node);
  node.showModal();
  input.focus();
  draw();
  // A list that cannot be read is left out; the others can still be searched.
  const readings = await Promise.allSettled([services(place), environments(place), things(place), operations()].map(async (more) => {
    const found = await more;
    entries = [...entries, ...found];
    if (node.open) draw();
  }));
  const failed = readings.find(({ status }) => status === "rejected");
  if (failed) fill(hint, words.notAllRead(failed.reason.message));
}

/** Entries in the order in which they fit: a name that begins with the words, then one that has them all. */
export function match(entries, text) {
  const parts = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (!parts.length) return entries.filter((entry) => !entry.isAction);
  const found = [];
  for (const entry of entries) {
    const name = entry.name.toLowerCase();
    const whole = `${name} ${(entry.about || "").toLowerCase()} ${entry.id?.toLowerCase() || ""}`;
    if (!parts.every((part) => whole.includes(part))) continue;
    const rank = name === text.toLowerCase() ? 0 : name.startsWith(parts[0]) ? 1 : name.includes(parts[0]) ? 2 : 3;
    found.push([rank + (entry.isAction && !entry.isHere ? 0.5 : 0), entry]);
  }
  return found.sort(([one], [other]) => one - other).map(([, entry]) => entry);
}

function fixed({ org }) {
  return [
    { name: words.places.overview, to: "/", about: "" },
    { name: words.places.new, to: "/new", about: words.newService.about },
    { name: words.places.organization, to: `/organization/${org.id}`, about: "" },
    { name: words.places.audit, to: `/organization/${org.id}/audit`, about: "" },
    { name: words.places.account, to: "/account", about: "" },
  ];
}

async function services({ org }) {
  const found = await api.all(`/organization/${org.id}/services`);
  return found.map((service) => ({ name: service.name, about: `${service.project_name} / ${service.environment_name}`, to: pathOf(service), glyph: () => dot(serviceKind(service), words.readable(service.state)) }));
}

async function environments(place) {
  const named = async (family, parents) => (await api.all("/resource", { family, path: `${place.org.id}/${parents}` })).map((found) => ({ name: found.name, about: `${words.levels[family.toUpperCase()]} · ${found.path}`, to: `/${family}/${found.id}` }));
  return (await Promise.all([named("project", ""), named("environment", "/")])).flat();
}

// The families of the organization and what is in them, such as webhooks.
async function things({ org }) {
  const document = await loadDocument();
  const path = `/organization/${org.id}`;
  const lists = familiesOf(document, path).map((list) => [document.titleOf(list), `${path}/${familyOf(list)}`]);
  const inside = await Promise.all(lists.map(async ([about, list]) => {
    const { results } = await api.get(list, { page_size: 100 }).catch(() => ({ results: [] }));
    return results.map((found) => ({ name: nameOf(found), about, to: document.itemPath(list, org.id) ? `${list}/${found.id}` : list }));
  }));
  return [...lists.map(([name, to]) => ({ name, about: org.name, to })), ...inside.flat()];
}

// Actions that fit the thing on the page come with its id.
async function operations() {
  const document = await loadDocument();
  const here = idsOf(document, location.pathname);
  return document.operations
    .filter((operation) => operation.method !== "GET" && !refusalOf([operation.method, operation.path]))
    .map((operation) => {
      const known = [...operation.path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name).filter((name) => here[name]);
      const query = new URLSearchParams(known.map((name) => [name, here[name]]));
      return { name: operation.summary, about: (operation.tags || []).join(" ") || title(operation.id), to: `/do/${operation.id}${known.length ? `?${query}` : ""}`, isAction: true, isHere: known.length > 0, id: operation.id };
    });
}

/** The ids in an address of the console, by the names that parameters have: { app_id: … }. */
function idsOf(document, path) {
  const inPath = Object.fromEntries([...path.matchAll(/\/([a-zA-Z]+)\/([0-9a-f-]{36})/g)].map(([, family, id]) => [family, id]));
  return Object.fromEntries(Object.entries(document.families()).filter(([name, family]) => name !== "org_id" && inPath[family]).map(([name, family]) => [name, inPath[family]]));
}
