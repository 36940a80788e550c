// The parts of all pages: links, buttons, tables, dialogs, notices.

import { announce, fill, h, prose } from "./dom.js";
import { showAtField } from "./field_errors.js";
import { icon } from "./icons.js";
import { readRights, refusalOf } from "./rights.js";
import { words } from "./words.js";

export function link(to, ...children) {
  return h("a", { href: to.startsWith("/") ? `/console${to}` : to }, ...children);
}

/** A link that looks like a button, to a page that calls the operation `needs`; without the rights, a button that says which are needed. */
export function linkButton(place, to, text, { main, needs, icon: sign } = {}) {
  if (refusalOf(needs)) return button(text, () => place.go(to), { main, needs, icon: sign });
  return link(to, h("span", { class: main ? "button main" : "button" }, sign && icon(sign), text));
}

/** A link to another site: an address of a service, which must not be a script. */
export function outside(url, ...children) {
  const isWeb = /^https?:\/\//i.test(url);
  return isWeb ? h("a", { href: url, target: "_blank", rel: "noreferrer noopener" }, ...children) : h("span", {}, ...children);
}

/**
 * A button. `main` for the one main action of a page, `danger` for what destroys. `needs`: [method, path] of the operation
 * that it calls, or a list of these. `icon`: of the sprite, before the text. If the rights do not suffice, the button is disabled and says which are needed.
 */
export function button(text, onclick, { main, danger, small, plain, title, disabled, key, needs, icon: sign } = {}) {
  const kinds = ["button", main && "main", danger && "danger", small && "small", plain && "plain"].filter(Boolean);
  const refusal = refusalOf(needs);
  const run = async (event) => {
    const node = event.currentTarget;
    if (node.getAttribute("aria-busy")) return;
    node.setAttribute("aria-busy", "true");
    try {
      if (refusal) await readRights(); // A role that has changed counts at once.
      if (refusal && refusalOf(needs)) say(refusal, { bad: true });
      else await onclick(event);
    } catch (error) {
      showError(error);
    } finally {
      node.removeAttribute("aria-busy");
    }
  };
  return h("button", { type: "button", class: kinds.join(" "), onclick: run, title: refusal || title, disabled, "aria-disabled": refusal ? "true" : null, key }, sign && icon(sign), text);
}

/** Copies a text. Browsers offer the clipboard over https only; elsewhere, what is selected in a field is copied. */
export async function copyText(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = h("textarea", { value: text, class: "unseen", "aria-hidden": "true" });
  const before = document.activeElement;
  (document.querySelector("dialog[open]") || document.body).append(area); // A dialog keeps the focus inside.
  area.select();
  const isCopied = document.execCommand("copy");
  area.remove();
  before?.focus?.();
  if (!isCopied) throw new Error(words.notCopied);
}

/** A button that copies a text. Without a label of its own, an icon says it. */
export function copyButton(text, label) {
  const looks = (sign, word) => [icon(sign), word && h("span", {}, word)];
  const copy = async (event) => {
    const node = event.currentTarget;
    await copyText(text);
    fill(node, looks("check", label && words.copied));
    announce(words.copied);
    setTimeout(() => fill(node, looks("copy", label)), 1500);
  };
  return h("button", { type: "button", class: "button small plain copy", onclick: copy, title: label ? null : words.copy, "aria-label": `${label || words.copy}: ${text}` }, looks("copy", label));
}

export function panel(heading, ...children) {
  return h("section", { class: "panel" }, heading && h("h2", {}, heading), ...children);
}

/** A page's head: what it is, and what can be done with it. */
export function head(heading, { about, actions = [] } = {}) {
  return h("header", { class: "head" },
    h("div", {}, h("h1", { tabindex: "-1" }, heading), about && h("p", { class: "muted" }, about)),
    h("div", { class: "actions" }, ...actions));
}

/** Shown instead of an empty list: what the list is for, a button, and a command with what it is for. */
export function empty(text, action, command, how) {
  return h("div", { class: "empty" }, h("p", {}, text), action, how && h("p", { class: "muted" }, how), command && code(command));
}

/** What to do, in numbered steps: [heading, about]. It stands where something will be. */
export const steps = (list) => h("ol", { class: "steps" }, list.map(([heading, about]) => h("li", {}, h("strong", {}, heading), h("span", { class: "muted" }, about))));

export function code(text) {
  return h("div", { class: "code-line" }, h("code", {}, text), copyButton(text));
}

export function codeBlock(text) {
  return h("div", { class: "code-block" }, h("pre", { tabindex: "0" }, text), copyButton(text));
}

/**
 * A table that becomes two-line rows on narrow windows. `columns`: [{ title, cell(row), wide }].
 * `to(row)` is where a row leads, `key(row)` its identity.
 */
export function table(columns, rows, { to, key = (row) => row.id, label } = {}) {
  const cell = (column, row) => h("td", { class: column.wide ? "wide" : column.kind, "data-title": column.title }, column.cell(row));
  const line = (row) => h("tr", { key: key(row), class: to ? "leads" : "", onclick: to && ((event) => openRow(event)) }, columns.map((column) => cell(column, row)));
  return h("div", { class: "table-box" },
    h("table", { class: "rows", "aria-label": label },
      h("thead", {}, h("tr", {}, columns.map((column) => h("th", { scope: "col", class: column.kind }, column.title)))),
      h("tbody", {}, rows.map(line))));
}

function openRow(event) {
  if (event.target.closest("a, button, input, select, summary") || String(getSelection())) return;
  event.currentTarget.querySelector("a")?.click();
}

/** A list of names and values. */
export function facts(pairs) {
  return h("dl", { class: "facts" }, pairs.filter((pair) => pair && pair[1] !== "" && pair[1] !== null && pair[1] !== undefined)
    .map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

export function tabs(entries, current) {
  return h("nav", { class: "tabs", "aria-label": words.sections }, entries.map(([to, text]) =>
    h("a", { href: `/console${to}`, "aria-current": to === current ? "page" : null }, text)));
}

// Notices

/** Says what happened, with a way back where there is one. What `stays` is there until it is closed. */
export function say(text, { action, bad, stays } = {}) {
  const box = document.getElementById("notices") || h("div", { id: "notices" });
  topmost().append(box);
  const notice = h("div", { class: bad ? "notice bad" : "notice", role: bad ? "alert" : "status" }, h("span", {}, prose(text)), action,
    h("button", { type: "button", class: "button plain small", "aria-label": words.close, onclick: () => notice.remove() }, icon("x")));
  if (bad) for (const other of [...box.children]) if (other.textContent === notice.textContent) other.remove();
  box.append(notice);
  if (!stays) setTimeout(() => notice.remove(), bad ? 15000 : 7000);
}

// Outside of a dialog that is open, nothing is read aloud or can be clicked.
const topmost = () => [...document.querySelectorAll("dialog.dialog[open]")].at(-1) || document.body;

/** Shows an error next to the field that it names, or as a notice. */
export function showError(error) {
  if (error?.name === "AbortError") return;
  if (error?.status === 401) return; // the page of signing in is shown
  if (showAtField(error)) return;
  say(errorText(error), { bad: true });
  if (!error?.status && error?.status !== 0) console.error(error);
}

/** The words of the API, with the request's id for those who look into the log of the server. */
export function errorText(error) {
  return error.status >= 500 && error.requestId ? `${error.message} (${words.request} ${error.requestId})` : error.message;
}

/** A failure with the button that leads on. */
export function errorBox(error, action) {
  return h("div", { class: "panel failure", role: "alert" }, h("p", { class: "first" }, prose(errorText(error))), action);
}

/** Says that what is shown is old, if the stream is broken, or the server cannot go on with it. `why`: as it says. */
export function stale({ isLive, since, why }) {
  return !isLive && since ? h("p", { class: "stale", role: "status" }, words.lastSeen(new Date(since), why)) : null;
}

// Dialogs

const TYPED = "textarea, input:not([type=checkbox], [type=radio], [type=search])";
const MAIN_ACTION = ".dialog-actions .main, .dialog-actions .danger";

/** Makes a handler of keys: Enter in a field of one line does what the main button does. */
export function onEnter(run) {
  return (event) => {
    if (event.key !== "Enter" || event.isComposing || event.target.tagName !== "INPUT") return;
    event.preventDefault();
    run();
  };
}

/** Closes all dialogs without an answer: their page is left. */
export function closeDialogs() {
  for (const node of document.querySelectorAll("dialog[open]")) node.close();
}

/** Opens a dialog; resolves with what `finish` is called with, or undefined. What was typed in it is not lost without a question, unless it `isQuestion` itself. */
export function dialog(heading, content, { wide, isQuestion } = {}) {
  return new Promise((resolve) => {
    const before = document.activeElement;
    const node = h("dialog", { class: wide ? "dialog wide" : "dialog", "aria-label": heading });
    let result;
    const finish = (value) => {
      result = value;
      node.close();
    };
    node.addEventListener("close", () => {
      const notices = node.querySelector("#notices");
      node.remove();
      if (notices) topmost().append(notices);
      before?.focus?.();
      resolve(result);
    });
    const leave = async () => (!node.isEdited || (await confirm(words.unsaved.title, words.unsaved.inDialog, { action: words.unsaved.leave, danger: true }))) && finish();
    node.addEventListener("input", ({ target }) => (node.isEdited ||= !isQuestion && target.matches(TYPED)));
    node.addEventListener("cancel", (event) => node.isEdited && event.target === node && (event.preventDefault(), leave()));
    node.addEventListener("mousedown", (event) => event.target === node && leave());
    fill(node, h("form", { class: "dialog-form", onkeydown: onEnter(() => node.querySelector(MAIN_ACTION)?.click()), onsubmit: (event) => event.preventDefault() }, h("h2", {}, heading), content(finish)));
    document.body.append(node);
    node.showModal();
    (node.querySelector("[autofocus]") || node.querySelector("input, select, textarea, button"))?.focus();
  });
}

/** Asks before something is done: says what it will do. What destroys asks for the name to be typed. */
export function confirm(heading, text, { action, danger, name, wide } = {}) {
  return dialog(heading, (finish) => {
    const run = h("button", { type: "button", class: `button ${danger ? "danger" : "main"}`, disabled: Boolean(name), onclick: () => finish(true) }, action || heading);
    const typed = name && h("label", { class: "field" }, words.typeName(name),
      h("input", { autocomplete: "off", autofocus: true, oninput: (event) => (run.disabled = event.target.value !== name) }));
    return [
      [text].flat().map((part) => (part instanceof Node ? part : h("p", {}, part))),
      typed,
      h("div", { class: "dialog-actions" }, h("button", { type: "button", class: "button", onclick: () => finish() }, words.cancel), run),
    ];
  }, { wide, isQuestion: true });
}

/** A menu of further actions. */
export function menu(label, entries) {
  const close = (event) => event.currentTarget.closest("details").removeAttribute("open");
  return h("details", { class: "menu", onfocusout: (event) => event.currentTarget.contains(event.relatedTarget) || event.currentTarget.removeAttribute("open") },
    h("summary", { class: "button icon-only", "aria-label": label, title: label }, icon("ellipsis")),
    h("div", { class: "menu-list", role: "group", onclick: close }, entries.filter(Boolean)));
}

let fields = 0;

/** A field of a form: its title, the control, and a help that is read after both. `name`: as errors of the API call it. */
export function field(title, control, help, { isSwitch, name } = {}) {
  const id = control.id || `f${++fields}`;
  control.id = id;
  if (help) control.setAttribute("aria-describedby", `${id}-help`);
  return h("div", { class: isSwitch ? "field switch" : "field", "data-field": name }, h("label", { class: "field-title", for: id }, title), control, help && h("p", { class: "help", id: `${id}-help` }, prose(help)));
}
