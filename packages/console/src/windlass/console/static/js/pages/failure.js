// A failure: what to do first, then the last lines, then the buttons that do it.

import { h, prose } from "../dom.js";
import { button, link } from "../parts.js";
import { sectionNamedIn } from "../sections.js";
import { deploy, rollBack } from "../services.js";
import { coloured } from "../sgr.js";
import { words } from "../words.js";

const OUTPUT = "\nIts last lines were:\n";

/** Splits a message: what to do, the rest of the reason, and the last lines of the program. */
export function parts(message) {
  const [reason, lines = ""] = message.split(OUTPUT);
  const [, first, rest] = /^(.+?[.!?:](?=\s|$)|[^]*?(?=\n|$))\s*([^]*)$/.exec(reason) || [null, reason, ""];
  return { first: ended(first.replace(/:$/, "")), rest: capital(ended(rest.trim())), lines };
}

const capital = (text) => text.replace(/^[a-z](?=[a-z]* )/, (letter) => letter.toUpperCase());

const ended = (text) => (/[^.!?…]$/.test(text) ? `${text}.` : text);

export function failure(message, { path, environment, name, deployments, present, place, id }) {
  const { first, rest, lines } = parts(message);
  const todo = advice(first, path, environment);
  return h("section", { class: "panel failure", role: "alert", key: "failure" },
    h("p", { class: "first" }, prose(first)),
    rest && h("p", {}, prose(rest)),
    lines && h("details", { open: true }, h("summary", {}, words.failure.lines), h("pre", { class: "lines", tabindex: "0" }, coloured(lines))),
    h("div", { class: "actions" },
      todo,
      button(words.failure.again, () => deploy(place, path), { main: !todo.length, needs: ["POST", `${path}/deploy`] }),
      deployments.some((other) => other.status === "SUCCEEDED") && button(words.rollback.button, () => rollBack(place, path, name, deployments, present), { needs: ["POST", `${path}/rollback`] }),
      id && link(`${path}/deployments/${id}`, h("span", { class: "button" }, words.failure.details)),
      link(`${path}/logs`, h("span", { class: "button" }, words.tabs.logs))));
}

// The buttons that do what the first sentence says: it names a service, a database, a variable, or a field of the settings.
function advice(sentence, path, environment) {
  if (/^Fix the [^]* which comes first\./.test(sentence)) return [does(`/environment/${environment}`, words.failure.whatFailed, true)];
  const [, variable, value = ""] = /\b(?:variable |env set |secrets set )([A-Z][A-Z0-9_]+)(?:.*?=(\{\{\w+\}\}))?/.exec(sentence) || [];
  const section = variable === "PORT" ? "ports" : sectionNamedIn(sentence);
  if (section) return [does(`${path}/settings?section=${section}`, words.failure.settings(words.settings.sections[section]), true)];
  const [, database = ""] = /^Create a (?:\w+ )?database, such as ([\w-]+)/.exec(sentence) || [];
  return [
    database && does(`/new?kind=database&environment=${environment}&name=${database}`, words.failure.newDatabase, true),
    variable && does(`${path}/variables?add=${variable}${value && `&value=${encodeURIComponent(value)}`}`, words.failure.addVariable(variable), !database),
  ].filter(Boolean);
}

const does = (to, text, isMain) => link(to, h("span", { class: isMain ? "button main" : "button" }, text));
