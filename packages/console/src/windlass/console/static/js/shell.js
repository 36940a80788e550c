// The frame around each page: the side bar with the places, and the bar below on phones.

import { fill, h } from "./dom.js";
import { icon } from "./icons.js";
import { openPalette } from "./palette.js";
import { link } from "./parts.js";
import { words } from "./words.js";

const PLACES = (org) => [
  ["/", words.places.overview, "layout-dashboard", words.places.overviewShort],
  ["/new", words.places.new, "plus", words.places.newShort],
  [`/organization/${org}`, words.places.organization, "building-2", words.places.organizationShort],
  [`/organization/${org}/audit`, words.places.audit, "scroll-text"],
  ["/account", words.places.account, "circle-user"],
];

/** Draws the frame and returns its `main`. */
export function drawShell(app, place) {
  app.removeAttribute("aria-busy");
  const old = document.getElementById("main");
  if (old && app.dataset.org === place.org.id) {
    markCurrent(app);
    return old;
  }
  app.dataset.org = place.org.id;
  const main = h("main", { id: "main" });
  fill(app,
    h("a", { href: "#main", class: "skip", onclick: (event) => (event.preventDefault(), main.querySelector("h1")?.focus()) }, words.skip),
    h("div", { class: "shell" },
      h("aside", { class: "side" },
        h("div", { class: "brand" }, link("/", h("span", { class: "mark", "aria-hidden": "true" }, "W"), "Windlass")),
        organization(place),
        h("button", { type: "button", class: "search-button", onclick: () => openPalette(place) }, h("span", { class: "with-icon" }, icon("search"), words.search), h("kbd", {}, "/")),
        h("nav", { "aria-label": words.mainNavigation }, PLACES(place.org.id).map(([to, text, glyph]) => entry(to, text, glyph))),
        h("p", { class: "who muted" }, place.account.name)),
      main,
      h("nav", { class: "bottom", "aria-label": words.mainNavigation },
        PLACES(place.org.id).map(([to, text, glyph, short]) => entry(to, short || text, glyph)),
        h("button", { type: "button", onclick: () => openPalette(place) }, icon("search", "glyph"), h("span", {}, words.searchShort)))));
  markCurrent(app);
  return main;
}

function entry(to, text, glyph) {
  return h("a", { href: `/console${to}`, "data-place": to }, icon(glyph, "glyph"), h("span", {}, text));
}

function organization({ account, org, chooseOrganization }) {
  if (account.organizations.length < 2) return h("div", { class: "organization" }, org.name);
  return h("select", { class: "organization", "aria-label": words.places.organization, onchange: async ({ target }) => (await chooseOrganization(target.value)) || (target.value = org.id) },
    account.organizations.map((other) => h("option", { value: other.id, selected: other.id === org.id }, other.name)));
}

function markCurrent(app) {
  const path = location.pathname.replace(/\/$/, "") || "/console";
  for (const anchor of app.querySelectorAll("nav a[data-place]")) {
    const target = `/console${anchor.dataset.place}`.replace(/\/$/, "");
    const is = target === path || (target.endsWith(path.split("/").slice(0, 4).join("/")) && path.includes("/organization/") && !path.endsWith("/audit"));
    if (is) anchor.setAttribute("aria-current", "page");
    else anchor.removeAttribute("aria-current");
  }
}

/** The path to a page, which is the navigation: project / environment / service. */
export function crumbs(...parts) {
  return h("nav", { class: "crumbs", "aria-label": words.path }, parts.filter(Boolean).map(([text, to], index) => [
    index > 0 && h("span", { "aria-hidden": "true", class: "muted" }, "/"),
    to ? link(to, text) : h("span", { "aria-current": "page" }, text),
  ]));
}

/** Links to the resources before and after this one, for `[` and `]`. `paths`: all of the same kind, in order. */
export function siblings(paths, path) {
  const index = paths.indexOf(path);
  if (index < 0 || paths.length < 2) return null;
  const to = (step, rel, label, sign) => {
    const target = paths[index + step];
    return target && h("a", { href: `/console${target}`, rel, "aria-label": label, title: `${label} (${step > 0 ? "]" : "["})` }, icon(sign));
  };
  return h("span", { class: "siblings" }, to(-1, "prev", words.previous, "chevron-left"), to(1, "next", words.following, "chevron-right"));
}
