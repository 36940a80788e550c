// Small charts as SVG: the present value in figures, two or three ticks, gaps shown as gaps, one cursor for all.

import { h, svg } from "./dom.js";
import { clockTime, dayTime } from "./format.js";

const WIDTH = 480;
const HEIGHT = 120;
const PAD = { left: 8, right: 8, top: 8, bottom: 18 };

/** Draws lines over common times. `lines`: [{ name, values }], with null where nothing is known. `span`: the milliseconds to show, if the times are of less. */
export function chart({ title, times, lines, format, span: wanted = 0 }) {
  const known = lines.flatMap(({ values }) => values.filter((value) => value !== null));
  const most = nice(Math.max(...known, 0) || 1);
  const last = new Date(times.at(-1)).getTime();
  const first = Math.min(new Date(times[0]).getTime(), last - wanted);
  const span = Math.max(1, last - first);
  const x = (index) => PAD.left + ((new Date(times[index]).getTime() - first) / span) * (WIDTH - PAD.left - PAD.right);
  const y = (value) => HEIGHT - PAD.bottom - (value / most) * (HEIGHT - PAD.top - PAD.bottom);
  // The value of now: an instance that is gone has none.
  const now = lines.map(({ name, values }, index) => ({ name, index, value: values.slice(-3).findLast((value) => value !== null) })).filter(({ value }) => value !== undefined);
  return h("figure", { class: "chart", "aria-label": `${title}: ${now.map(({ name, value }) => `${name} ${format(value)}`).join(", ")}` },
    h("figcaption", {}, h("span", {}, title), h("span", { class: "now" }, now.map(({ name, index, value }) => h("span", { class: "legend-item" }, lines.length > 1 && [h("span", { class: `swatch ${kindOf(name, index)}`, "aria-hidden": "true" }), h("span", { class: "muted" }, name, " ")], h("strong", {}, format(value)), " ")))),
    h("div", { class: "plot" }, h("span", { class: "tick muted", "aria-hidden": "true" }, format(most)), h("span", { class: "tick least muted", "aria-hidden": "true" }, format(0)),
    svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-hidden": "true", onmousemove: (event) => point(event, times, first), onmouseleave: unpoint },
      [0, 0.5, 1].map((part) => svg("line", { class: "grid", x1: PAD.left, x2: WIDTH - PAD.right, y1: y(most * part), y2: y(most * part) })),
      lines.map(({ name, values }, index) => svg("path", { class: `area ${kindOf(name, index)}`, d: area(values, x, y) })),
      lines.map(({ name, values }, index) => svg("path", { class: `line ${kindOf(name, index)}`, d: path(values, x, y) })).reverse(),
      svg("line", { class: "cursor", x1: -9, x2: -9, y1: PAD.top, y2: HEIGHT - PAD.bottom }))),
    h("div", { class: "axis muted" }, h("span", {}, edgeTime(first, span)), h("span", { class: "pointed" }), h("span", {}, edgeTime(last, span))));
}

const DAY = 24 * 3600 * 1000;
const isLong = (span) => span >= DAY / 2; // the hour alone does not tell the day
const edgeTime = (time, span) => (isLong(span) ? dayTime(time) : clockTime(time).slice(0, 5));

// Classes of statuses have the colours of states.
const kindOf = (name, index) => ({ "2xx": "line1", "3xx": "line4", "4xx": "line2", "5xx": "line3" })[name] || `line${index % 6}`;

function path(values, x, y) {
  let drawn = "";
  let isDown = false;
  values.forEach((value, index) => {
    if (value === null) return (isDown = false);
    const isAlone = !isDown && (values[index + 1] ?? null) === null;
    drawn += `${isDown ? "L" : "M"}${x(index).toFixed(1)} ${y(value).toFixed(1)}${isAlone ? "h0.1" : ""}`;
    isDown = true;
  });
  return drawn;
}

// What is below a line, down to nothing: one shape for each stretch without a gap.
function area(values, x, y) {
  let drawn = "";
  let start = -1;
  values.forEach((value, index) => {
    if (value === null) return;
    if (start < 0) drawn += `M${x((start = index)).toFixed(1)} ${y(0)}`;
    drawn += `L${x(index).toFixed(1)} ${y(value).toFixed(1)}`;
    if ((values[index + 1] ?? null) === null) drawn += `L${x(index).toFixed(1)} ${y(0)}Z`, (start = -1);
  });
  return drawn;
}

// One cursor: the same moment is shown in every chart of the page.
function point(event, times, first) {
  const box = event.currentTarget.getBoundingClientRect();
  const part = Math.max(0, Math.min(1, (event.clientX - box.left) / box.width));
  const at = PAD.left + part * (WIDTH - PAD.left - PAD.right);
  for (const cursor of document.querySelectorAll(".chart .cursor")) {
    cursor.setAttribute("x1", at);
    cursor.setAttribute("x2", at);
  }
  const span = new Date(times.at(-1)) - first;
  const time = first + part * span;
  for (const label of document.querySelectorAll(".chart .pointed")) label.textContent = isLong(span) ? dayTime(time) : clockTime(time);
}

function unpoint() {
  for (const cursor of document.querySelectorAll(".chart .cursor")) cursor.setAttribute("x1", -9), cursor.setAttribute("x2", -9);
  for (const label of document.querySelectorAll(".chart .pointed")) label.textContent = "";
}

function nice(value) {
  const size = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 2.5, 5, 10].map((step) => step * size).find((step) => step >= value) || value;
}
