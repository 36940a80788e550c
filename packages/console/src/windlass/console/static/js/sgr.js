// Colours of programs: the signs of terminals for them (SGR) become spans, and all other signs are left out.

import { h } from "./dom.js";

const SIGN = /\x1b(?:\[([0-?]*)[ -/]*([@-~])|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-~])/g;
const MOST = 200; // spans of one text: a line that changes its colour with each letter is not worth more

/** True if a text has signs of a terminal. */
export const hasSigns = (text) => text.includes("\x1b");

/** The text without signs of a terminal. */
export const withoutSigns = (text) => (hasSigns(text) ? text.replace(SIGN, "") : text);

/** The text as nodes, in its colours. */
export function coloured(text) {
  if (!hasSigns(text)) return [text];
  const parts = [];
  let style = {};
  let from = 0;
  for (const sign of text.matchAll(SIGN)) {
    add(parts, text.slice(from, sign.index), style);
    from = sign.index + sign[0].length;
    if (sign[2] === "m") style = changed(style, sign[1]);
    if (parts.length >= MOST) return [...parts, withoutSigns(text.slice(from))];
  }
  add(parts, text.slice(from), style);
  return parts;
}

function add(parts, text, { colour, ...marks }) {
  if (!text) return;
  const classes = [colour && `sgr-${colour}`, ...Object.keys(marks).filter((name) => marks[name]).map((name) => `sgr-${name}`)].filter(Boolean);
  parts.push(classes.length ? h("span", { class: classes.join(" ") }, text) : text);
}

const COLOURS = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];
const MARKS = { 1: { bold: true }, 2: { faint: true }, 3: { italic: true }, 4: { underline: true }, 22: { bold: false, faint: false }, 23: { italic: false }, 24: { underline: false }, 39: { colour: "" } };

function changed(style, text) {
  const codes = text.split(/[;:]/).map(Number);
  let now = style;
  for (let place = 0; place < codes.length; place++) {
    const code = codes[place];
    if (code === 0) now = {};
    else if (code === 38 || code === 48) {
      const isTrue = codes[place + 1] === 2;
      if (code === 38) now = { ...now, colour: isTrue ? nearest(codes.slice(place + 2, place + 5)) : indexed(codes[place + 2]) };
      place += isTrue ? 4 : 2;
    } else if ((code >= 30 && code <= 37) || (code >= 90 && code <= 97)) now = { ...now, colour: COLOURS[code % 10] };
    else if (MARKS[code]) now = { ...now, ...MARKS[code] };
  }
  return now;
}

// A colour of the 256: 16 named ones, a cube with six steps, and greys.
function indexed(code = 7) {
  if (code < 16) return COLOURS[code % 8];
  if (code >= 232) return code < 244 ? "black" : "white";
  return nearest([Math.floor((code - 16) / 36), Math.floor((code - 16) / 6) % 6, (code - 16) % 6].map((step) => step * 51));
}

// The named colour whose parts are those that are strong.
function nearest(parts) {
  const strong = Math.max(...parts) * 0.6;
  return COLOURS[parts.reduce((sum, part, bit) => sum + (part > strong && part > 60 ? 1 << bit : 0), 0)] || "white";
}
