// The settings of a service: a rail of sections with a search, one section at a time, and one bar that saves what was changed.

import { api } from "../../api.js";
import { fill, h, own, prose } from "../../dom.js";
import { hold } from "../../edits.js";
import { isIdle } from "../../forms.js";
import { title } from "../../format.js";
import { icon } from "../../icons.js";
import { button, codeBlock, panel, say } from "../../parts.js";
import { save as saveEdited } from "../../saving.js";
import { asCommand, asRequest } from "../../equivalents.js";
import { SECTIONS } from "../../sections.js";
import { deploy, remove, willOf } from "../../services.js";
import { advancedParts } from "../../settings/advanced.js";
import { partsOf } from "../../settings/parts.js";
import { words } from "../../words.js";

const text = words.settings;
const SILENT = ["icon_uri", "mode"]; // The console sets the one; of the other, both values do the same.
const AT_ONCE = ["name", "description", "auto_deploy", "auto_deploy_config", "watch_paths"];

export async function load(state, place) {
  const { service, tag } = state; // as they are edited: `state` follows the server
  const content = { service, tag, wanted: "", ...partsIn(state) };
  content.section = content.sections.find(({ name }) => name === place.query.get("section"))?.name || "general";
  content.bar = h("div", { class: "save-bar", role: "status" });
  hold({ node: content.bar, changes: () => ({ ...changesOf(content), ...pendingOf(content) }) });
  return content;
}

export function render(state, place) {
  const { content } = state;
  const show = () => showBar(state, place);
  queueMicrotask(show);
  return h("div", { class: "with-rail", oninput: show, onchange: show, onclick: () => queueMicrotask(show) },
    rail(state, place),
    h("div", { class: "rail-page" },
      content.wanted ? found(state, place) : null,
      content.sections.map((section) => draw(state, section, Boolean(content.wanted) || section.name !== content.section)),
      content.section === "declaration" && !content.wanted && declaration(state),
      content.section === "danger" && !content.wanted && panel(text.danger, h("p", {}, willOf(state.path, "remove", words.remove.will)), button(words.remove.button, () => remove(place, state.path, state.service.name, `/environment/${state.service.environment.id}`), { danger: true, icon: "trash-2", needs: ["DELETE", state.path] })),
      own(content.bar)));
}

function rail(state, place) {
  const { content } = state;
  const all = [...content.sections.map(({ name, sign }) => [name, sign]), ["declaration", "code"], ["danger", "trash-2"]];
  return h("aside", { class: "rail" },
    h("label", { class: "rail-search" }, icon("search"), h("input", { type: "search", "aria-label": text.search, placeholder: text.search, value: content.wanted, autocomplete: "off", oninput: (event) => ((content.wanted = event.target.value.trim()), place.update()) })),
    h("nav", { "aria-label": words.sections }, all.map(([name, sign]) => h("a", {
      href: `/console${state.path}/settings?section=${name}`, key: name, "aria-current": !content.wanted && name === content.section ? "page" : null,
      onclick: (event) => !(event.metaKey || event.ctrlKey || event.shiftKey) && (event.preventDefault(), event.stopPropagation(), open(state, place, name)),
    }, icon(sign), h("span", {}, sectionTitle(name))))));
}

const sectionTitle = (name) => text.sections[name] || words.readable(name);

// Edits in the other sections stay.
function open({ content, path }, place, name) {
  Object.assign(content, { section: name, wanted: "" });
  history.replaceState(history.state, "", `/console${path}/settings?section=${name}`);
  place.update();
}

function draw(state, section, hidden) {
  return h("div", { key: `section-${section.name}`, hidden, class: "settings-section" }, section.parts.map((part, index) =>
    h("section", { class: "panel", key: `${section.name}${index}` }, h("h2", {}, part.title || (section.name === "general" ? text.whatRuns : sectionTitle(section.name))), part.about && h("p", { class: "help" }, part.about), own(part.node))));
}

// What the search finds: fields by their titles and helps.
function found(state, place) {
  const { content } = state;
  const wanted = content.wanted.toLowerCase().split(/\s+/);
  const hits = content.sections.flatMap((section) => section.parts.flatMap((part) => [...part.node.querySelectorAll("[data-field]")].flatMap((node) => {
    const label = node.querySelector(":scope > .field-title, :scope > legend")?.textContent;
    if (!label) return [];
    const help = node.querySelector(":scope > .help")?.textContent || "";
    const whole = `${label} ${help} ${node.dataset.field} ${part.title} ${sectionTitle(section.name)}`.toLowerCase();
    return wanted.every((word) => whole.includes(word)) ? [{ section, part, node, label, help }] : [];
  })));
  const go = ({ section, node }) => {
    open(state, place, section.name);
    for (let above = node; (above = above.parentElement.closest("details")); ) above.open = true;
    const input = node.querySelector("input, select, textarea");
    node.scrollIntoView({ block: "center" });
    input?.focus();
  };
  return panel(text.results, hits.length ? h("ul", { class: "choose hits" }, hits.slice(0, 30).map((hit) => h("li", {}, h("button", { type: "button", class: "choice", onclick: () => go(hit) },
    h("span", { class: "muted" }, sectionTitle(hit.section.name), " › "), h("strong", {}, hit.label), hit.help && h("span", { class: "help" }, prose(hit.help)))))) : h("p", { class: "muted" }, text.nothingFound));
}

// The parts of each section, and the advanced settings that are among them.
function partsIn({ document, path, service }) {
  const schema = document.body(document.at("PATCH", path));
  const shown = document.answer(document.at("GET", path)).properties;
  const known = new Set([...SECTIONS.flatMap(([, , names]) => names), ...SILENT]);
  const others = Object.keys(schema.properties).filter((name) => !known.has(name));
  // A kind of a package names the sections of its fields.
  const sectionFor = (name) => document.resolve(schema.properties[name])["x-section"];
  const declared = [...new Set(others.map(sectionFor))].filter(Boolean).map((section) => [section, "package", others.filter((name) => sectionFor(name) === section)]);
  const isUsed = (name) => schema.properties[name] && !isIdle(document.resolve(schema.properties[name])) && !isIdle(document.resolve(shown[name] || {}));
  const advanced = advancedParts({ document, service, path });
  const sections = [...SECTIONS, ...declared, ["other", "ellipsis", others.filter((name) => !sectionFor(name))]]
    .map(([name, sign, fields]) => ({ name, sign, parts: partsOf({ document, schema, service, path }, fields.filter(isUsed)).concat(advanced?.parts[name] || []) }))
    .filter(({ parts }) => parts.length);
  return { sections, advanced };
}

const pendingOf = ({ advanced }) => advanced?.pending() || {};
const changesOf = ({ sections }) => Object.assign({}, ...sections.flatMap(({ parts }) => parts).map((part) => part.changes()));

function showBar(state, place) {
  const { content, path } = state;
  let names;
  try {
    names = [...Object.keys(changesOf(content)), ...Object.keys(pendingOf(content))];
  } catch {
    names = [""]; // What is filled in cannot be read yet.
  }
  const key = names.join();
  if (content.shownBar === key && content.bar.firstChild) return;
  content.shownBar = key;
  const isNow = names.every((name) => AT_ONCE.includes(name) || (name.includes(".") && content.advanced.isNow(name)));
  content.bar.classList.toggle("pending", names.length > 0);
  fill(content.bar,
    h("p", {}, names.length ? [h("strong", {}, text.changed(names.length)), " ", h("span", { class: "muted" }, names.filter(Boolean).map(titleOf(content)).join(", "), ". ", isNow ? text.effectNow : text.effectNext)] : h("span", { class: "muted" }, text.about)),
    h("div", { class: "actions" },
      names.length > 0 && button(text.discard, () => discard(state, place), { plain: true }),
      button(words.save, () => save(state, place, false), { main: names.length > 0 && isNow, needs: ["PATCH", path] }),
      button(plans(state) ? text.saveAndPlan : text.saveAndDeploy, () => save(state, place, true), { main: !isNow, icon: "rocket", needs: [["PATCH", path], ["POST", `${path}/deploy`]] })));
}

// A setting is called as its field is.
const titleOf = ({ sections }) => (name) => {
  const fields = sections.flatMap(({ parts }) => parts.map((part) => part.node.querySelector(`[data-field="${name}"] > .field-title`)));
  return (name.includes(".") && fields.find(Boolean)?.textContent) || title(name);
};

function discard(state, place) {
  Object.assign(state.content, { ...partsIn({ ...state, service: state.content.service }), shownBar: null });
  place.update();
}

async function save(state, place, thenDeploy) {
  const { content, path } = state;
  const changes = changesOf(content), pending = pendingOf(content);
  const has = (some) => Object.keys(some).length > 0;
  if (!has(changes) && !has(pending)) return thenDeploy ? begin(state, place) : say(text.nothingChanged);
  try {
    if (has(pending)) {
      await content.advanced.save(content.tag);
      const now = await api.tagged(path);
      Object.assign(content, { service: now.data, tag: now.tag });
    }
    const answer = has(changes) ? await saveEdited(path, changes, content.tag, content.service) : { data: content.service, tag: content.tag };
    if (!answer) return;
    Object.assign(content, { service: answer.data, tag: answer.tag });
  } catch (error) {
    // The section with the field that the error names is opened, so that it can stand there.
    const section = sectionWith(content, /^[\w.]+/.exec(error.message)?.[0]);
    if (section && section !== content.section) open(state, place, section);
    throw error;
  }
  state.service = content.service;
  Object.assign(content, { ...partsIn(state), shownBar: null });
  if (thenDeploy) return begin(state, place);
  say(text.saved);
  place.update();
}

// A service that can plan shows first what would be done: changed settings may destroy something.
const plans = ({ has }) => has("plan");

async function begin(state, place) {
  const { path } = state;
  if (!plans(state)) return deploy(place, path);
  await api.post(`${path}/deploy`, { action: "PLAN" });
  return place.go(`${path}/plan`);
}

// The section with a field, such as `ports` or the key of an advanced setting.
function sectionWith({ sections }, name = "") {
  const wanted = [name, name.split(".")[0]].filter(Boolean);
  return sections.find(({ parts }) => wanted.some((field) => parts.some((part) => part.fields.includes(field) || part.node.querySelector(`[data-field="${field}"]`))))?.name;
}

function declaration({ service, path, document }) {
  const fields = Object.keys(document.body(document.at("PUT", path)).properties || {});
  const body = Object.fromEntries(fields.filter((name) => service[name] !== undefined && service[name] !== null).map((name) => [name, service[name]]));
  return panel(text.declaration, h("p", { class: "help" }, text.declarationAbout), h("h3", {}, words.asApi), codeBlock(asRequest("PUT", path, body)), h("h3", {}, words.asCommand), codeBlock(asCommand("PUT", path, body)));
}
