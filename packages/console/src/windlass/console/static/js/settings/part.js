// What parts of the settings have in common. A part takes some fields of the API, and draws them its own way:
// { title, fields, node, changes() }, where `changes` returns what differs from the present values, as a merge patch.

import { h } from "../dom.js";

let groups = 0;

export const differs = (one, other) => JSON.stringify(one ?? null) !== JSON.stringify(other ?? null);

/** One choice of a few, as buttons side by side. `options`: [value, label, about]. `onchoose` gets the value. */
export function segments(label, options, chosen, onchoose) {
  const name = `segments-${++groups}`;
  return h("div", { class: "segments", role: "radiogroup", "aria-label": label }, options.map(([value, shown]) =>
    h("label", {}, h("input", { type: "radio", name, value, checked: value === chosen, onchange: () => onchoose(value) }), h("span", {}, shown))));
}

/** One choice of a few as cards: [value, heading, about]. */
export function cards(label, options, chosen, onchoose) {
  const name = `cards-${++groups}`;
  return h("div", { class: "presets", role: "radiogroup", "aria-label": label }, options.map(([value, heading, about, sign]) =>
    h("label", { class: "preset" }, h("input", { type: "radio", name, value, checked: value === chosen, onchange: () => onchoose(value) }), sign, h("strong", {}, heading), " ", about && h("span", { class: "muted" }, about))));
}

/** A number with its unit behind it. */
export function amount(value, unit, { min = 0, step = 1, max, placeholder } = {}) {
  const input = h("input", { type: "number", min, max, step, value: value ?? "", placeholder, oninput: (event) => (event.target.touched = true) });
  return { input, node: h("span", { class: "amount" }, input, unit && h("span", { class: "unit" }, unit)), read: () => (input.value === "" ? null : Number(input.value)) };
}
