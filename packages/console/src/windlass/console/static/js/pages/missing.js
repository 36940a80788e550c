import { h } from "../dom.js";
import { empty, head, link } from "../parts.js";
import { words } from "../words.js";

export const load = async () => ({ title: words.missing.title });

export function render() {
  return [head(words.missing.title), empty(words.missing.text, link("/", h("span", { class: "button main" }, words.places.overview)))];
}
