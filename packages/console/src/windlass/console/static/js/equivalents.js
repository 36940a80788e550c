// The request of the API and the command that read the same as a page.

import { h } from "./dom.js";
import { codeBlock } from "./parts.js";
import { words } from "./words.js";

// Others choose names, and a command is copied into a shell: nothing of a name may be a command. A word with `=` first is one in zsh.
const quoted = (text) => (/^[\w@%+:,./-][\w@%+=:,./-]*$/.test(text) ? text : `'${text.replace(/'/g, "'\\''")}'`);

/** A command about a thing that others have named; its name is no option. */
export const commandFor = (words, name) => `${words} ${name.startsWith("-") ? "-- " : ""}${quoted(name)}`;

export function asRequest(method, path, body) {
  const lines = [`curl -X ${method} ${quoted(location.origin + path)}`, `-H "Authorization: Token $WINDLASS_TOKEN"`];
  if (body) lines.push("-H 'Content-Type: application/json'", `-d ${quoted(JSON.stringify(body, null, 2))}`);
  return lines.join(" \\\n  ");
}

export function asCommand(method, path, body) {
  return [`windlass api ${method} ${quoted(path)}`, body && `--data ${quoted(JSON.stringify(body))}`].filter(Boolean).join(" ");
}

/** The request and the command that read what a page shows. */
export function apiEquivalents(path) {
  return h("details", { class: "same", key: "same" }, h("summary", { class: "muted" }, words.asApi), codeBlock(asRequest("GET", path)), codeBlock(asCommand("GET", path)));
}
