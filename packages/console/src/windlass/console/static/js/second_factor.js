// The second factor: what an app needs, the field for its code, and the recovery codes.

import { h } from "./dom.js";
import { button, code, codeBlock, dialog, field } from "./parts.js";
import { people } from "./words_of_people.js";

const text = people.factor;

/** The field for a code of the app, or a recovery code. */
export function codeField() {
  const input = h("input", { type: "text", name: "second_factor", autocomplete: "one-time-code", spellcheck: "false", autofocus: true });
  return { input, node: field(text.code, input, text.codeHelp, { name: "second_factor" }) };
}

/** The key that is typed or opened in an app. */
export function setupPart({ secret, uri }) {
  return [h("p", {}, text.key), code(secret.replace(/(.{4})(?=.)/g, "$1 ")), h("p", {}, h("a", { href: uri, target: "_blank", rel: "noreferrer" }, text.openApp))];
}

/** The button that takes a passkey in place of a code. */
export const passkeyPart = (run) => [h("div", { class: "actions" }, button(people.passkey.use, run, { main: true })), h("p", { class: "muted" }, people.passkey.alone)];

/** Shows recovery codes until the person says that they are kept. */
export function showRecoveryCodes(codes) {
  return dialog(text.codesTitle, (finish) => [h("p", {}, text.codesWill), codeBlock(codes.join("\n")), h("div", { class: "dialog-actions" }, button(text.kept, () => finish(true), { main: true }))]);
}
