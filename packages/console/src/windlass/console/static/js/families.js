// The families below a resource, such as those of a project. Pages of their parents link to them; their own pages are derived.

import { h, prose } from "./dom.js";
import { kindIcon } from "./icons.js";
import { link } from "./parts.js";
import { isShown } from "./routes.js";

export const familyOf = (list) => list.path.split("/").pop();

/** The fields that may hold the name of a thing, the best first. */
export const NAMES = ["name", "email", "url", "target_url", "key"];

export const nameOf = (item) => NAMES.map((field) => item[field]).find(Boolean) || item.id;

/** The lists below a path that have pages of their own. */
export function familiesOf(document, path) {
  return document.familiesBelow(path).filter((list) => !isShown(familyOf(list)) && !document.isDeployable(list));
}

/** A card for each family, with what it is for. */
export function familyCards(document, path, ...more) {
  const lists = familiesOf(document, path);
  if (!lists.length && !more.length) return null;
  return h("div", { class: "cards" },
    lists.map((list) => h("article", { class: "card", key: familyOf(list) }, h("h2", {}, kindIcon(familyOf(list)), link(`${path}/${familyOf(list)}`, document.titleOf(list))), h("p", { class: "muted" }, prose(document.describe(list.tags[0]))))), more);
}
