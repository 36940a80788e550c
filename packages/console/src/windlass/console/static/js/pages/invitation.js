// An invitation that is opened by somebody who is signed in: it is used up by signing in with its address.

import { h } from "../dom.js";
import { button, head, linkButton, panel } from "../parts.js";
import { words } from "../words.js";
import { signOut } from "./account.js";

const text = words.invitation;

export const load = async () => ({ title: text.title });

export function render(state, place) {
  return [
    head(text.title),
    panel(null, h("p", {}, text.present(place.account.name)), h("p", {}, text.how),
      h("div", { class: "actions" }, button(text.again, () => signOut(place, location.pathname), { main: true }), linkButton(place, "/", words.places.overview))),
  ];
}
