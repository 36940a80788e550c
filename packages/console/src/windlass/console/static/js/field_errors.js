// An error of a field stands next to the field: the API names it first, such as `ports[0].internal_port: must be at most 65535`.

import { h, prose } from "./dom.js";
import { title } from "./format.js";

const PREDICATE = /^(must|is|does|cannot) /;
const NAMED = /^([A-Za-z_][\w.[\]]*): ([^]+)$/;

/** An error of a field of a form that is found before anything is sent. */
export const fieldError = (name, text) => Object.assign(new Error(`${name}: ${text}`), { isOfField: true });

/** A sentence with the titles of the fields that it names. */
export const byTitles = (sentence, fields) => sentence.replace(/`?\b([a-z]+(?:_[a-z]+)*)\b`?/g, (found, name) => (fields.includes(name) && (found !== name || name.includes("_")) ? `“${title(name)}”` : found));

/** Shows an error next to its field, in the topmost dialog or on the page. Returns false if it names no field that is there. */
export function showAtField(error) {
  const box = [...document.querySelectorAll("dialog[open]")].at(-1) || document.getElementById("main");
  if (!box) return false;
  clear(box);
  const [, path, text] = NAMED.exec(error.message) || [];
  if (!path || !(error.isOfField || (error.status >= 400 && error.status < 500))) return false;
  const { field, rest } = find(box, path.replace(/\[(\d+)\]/g, ".$1").split("."));
  if (!field) return false;
  mark(field, rest.some((part) => !/^\d+$/.test(part)) ? error.message : byTitles(text, [...box.querySelectorAll("[data-field]")].flatMap((node) => node.dataset.field.split("."))));
  return true;
}

function mark(field, text) {
  const note = h("p", { class: "field-error", role: "alert", id: "field-error" }, prose(sentence(field, text)));
  for (let above = field; (above = above.parentElement.closest("details")); ) above.open = true;
  const input = field.querySelector("input, select, textarea");
  field.append(note);
  field.addEventListener("input", () => clear(field), { once: true });
  if (!input) return field.scrollIntoView({ block: "nearest" });
  input.setAttribute("aria-invalid", "true");
  input.setAttribute("aria-errormessage", note.id);
  input.focus();
  note.scrollIntoView({ block: "nearest" });
}

// The name of a field is the subject of what it must be.
function sentence(field, text) {
  const name = field.querySelector(".field-title, legend")?.firstChild?.textContent;
  return name && PREDICATE.test(text) ? `${name} ${text}` : text.charAt(0).toUpperCase() + text.slice(1);
}

function clear(box) {
  for (const note of box.querySelectorAll(".field-error")) note.remove();
  for (const input of box.querySelectorAll("[aria-invalid]")) ["aria-invalid", "aria-errormessage"].forEach((name) => input.removeAttribute(name));
}

// The field that a path leads to, or the last one on the way, with what is left of the path. A field may have a name with dots.
function find(box, parts, field = null) {
  const inside = (selector) => [...box.querySelectorAll(selector)].filter((node) => node.parentElement.closest("[data-field]") === field && !node.closest("[hidden]"));
  for (let count = parts.length; count > 0; count--) {
    const next = inside(`[data-field="${parts.slice(0, count).join(".")}"]`)[0];
    if (next) return find(next, parts.slice(count), next);
  }
  const item = /^\d+$/.test(parts[0]) && inside(".item")[parts[0]];
  return item ? find(item, parts.slice(1), field) : { field, rest: parts };
}
