// A failure: what to do first, then the last lines, then the buttons that do it.

import { h, prose } from "../dom.js";
import { button, link } from "../parts.js";
import { deploy, rollBack } from "../services.js";
import { words } from "../words.js";

const OUTPUT = "\nIts last lines were:\n";

/** Splits a message: what to do, the rest of the reason, and the last lines of the program. */
export function parts(message) {
  const [reason, lines = ""] = message.split(OUTPUT);
  const [, first, rest] = /^(.+?[.!?:](?=\s|$)|[^]*?(?=\n|$))\s*([^]*)$/.exec(reason) || [null, reason, ""];
  return { first: first.replace(/:$/, "."), rest: rest.trim(), lines };
}

export function failure(message, { path, name, deployments, present, place, id }) {
  const { first, rest, lines } = parts(message);
  const todo = advice(message, path);
  return h("section", { class: "panel failure", role: "alert", key: "failure" },
    h("p", { class: "first" }, prose(first)),
    rest && h("p", {}, prose(rest)),
    lines && h("details", { open: true }, h("summary", {}, words.failure.lines), h("pre", { class: "lines", tabindex: "0" }, lines)),
    h("div", { class: "actions" },
      todo,
      button(words.failure.again, () => deploy(place, path), { main: !todo, needs: ["POST", `${path}/deploy`] }),
      deployments.some((other) => other.status === "SUCCEEDED") && button(words.rollback.button, () => rollBack(place, path, name, deployments, present), { needs: ["POST", `${path}/rollback`] }),
      id && link(`${path}/deployments/${id}`, h("span", { class: "button" }, words.failure.details)),
      link(`${path}/logs`, h("span", { class: "button" }, words.tabs.logs))));
}

// The button that does what the first sentence says, where it can be told from the words.
function advice(message, path) {
  const variable = /variable ([A-Z][A-Z0-9_]+)/.exec(message)?.[1] || /env set ([A-Z][A-Z0-9_]*)=/.exec(message)?.[1];
  if (variable) return link(`${path}/variables?add=${variable}`, h("span", { class: "button main" }, words.failure.addVariable(variable)));
  if (/\b(port|listens? on)\b/i.test(message.split("\n")[0])) return link(`${path}/settings?section=ports`, h("span", { class: "button main" }, words.failure.ports));
  if (/memory|command|folder|root_path|language_version/i.test(message.split("\n")[0])) return link(`${path}/settings`, h("span", { class: "button main" }, words.failure.settings));
  return null;
}
