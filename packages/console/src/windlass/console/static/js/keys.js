// The keyboard: `/` and Ctrl-K search, `g` and a letter go to places, `j` and `k` move in lists, `?` shows them all.

import { fill, h } from "./dom.js";
import { openPalette } from "./palette.js";
import { dialog } from "./parts.js";
import { words } from "./words.js";

export function startKeys(session, go) {
  let before = "";
  document.addEventListener("keydown", (event) => {
    if (!session.org || event.defaultPrevented) return; // A terminal, for example, has taken the key.
    const place = { ...session, go };
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
      event.preventDefault();
      return openPalette(place, { actions: true });
    }
    const isTyping = event.target.closest("input, textarea, select, [contenteditable], .terminal") || document.querySelector("dialog[open]");
    if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
    const places = { o: "/", n: "/new", s: `/organization/${session.org.id}`, a: `/organization/${session.org.id}/audit`, u: "/account" };
    const single = {
      "/": () => openPalette(place),
      "?": showKeys,
      j: () => move(1),
      k: () => move(-1),
      "[": () => sibling(-1),
      "]": () => sibling(1),
      Escape: up,
    };
    if (before === "g" && places[event.key]) go(places[event.key]);
    else if (single[event.key]) single[event.key]();
    else {
      before = event.key === "g" ? "g" : "";
      return;
    }
    before = "";
    event.preventDefault();
  });
}

// In lists: the link of the next row.
function move(step) {
  const links = [...document.querySelectorAll("main tbody tr, main .card > h2")].map((row) => row.querySelector("a")).filter(Boolean);
  const now = links.findIndex((link) => link === document.activeElement || link.closest("tr")?.contains(document.activeElement));
  links[Math.max(0, Math.min(links.length - 1, now + step))]?.focus();
}

// The next tab; on pages without tabs, the next of the same kind.
function sibling(step) {
  const tabs = [...document.querySelectorAll("main .tabs a")];
  if (!tabs.length) return document.querySelector(`main a[rel=${step > 0 ? "next" : "prev"}]`)?.click();
  const now = tabs.findIndex((tab) => tab.getAttribute("aria-current"));
  tabs[(now + step + tabs.length) % tabs.length].click();
}

// Closes an open menu; without one, opens the last link of the path above the page.
function up() {
  const menu = document.querySelector("details.menu[open]");
  if (!menu) return [...document.querySelectorAll("main .crumbs a:not([rel])")].at(-1)?.click();
  menu.removeAttribute("open");
  menu.querySelector("summary").focus();
}

function showKeys() {
  dialog(words.keys.title, (finish) => [
    h("dl", { class: "facts" }, words.keys.list.map(([key, text]) => h("div", {}, h("dt", {}, h("kbd", {}, key)), h("dd", {}, text)))),
    fill(h("div", { class: "dialog-actions" }), h("button", { type: "button", class: "button", onclick: () => finish() }, words.close)),
  ]);
}
