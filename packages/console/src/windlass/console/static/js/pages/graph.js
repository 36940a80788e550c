// The dependencies of the services of an environment, read from the variables: an arrow from a service to one whose address it has.

import { api } from "../api.js";
import { svg, h } from "../dom.js";
import { pathOf } from "../services.js";
import { serviceKind, stateOf } from "../states.js";
import { words } from "../words.js";

const BOX = { width: 190, height: 48, across: 90, down: 24 };
const ARC = 30; // as deep as the space between two rows: a curve reaches three quarters of it

/** Reads which service names which: { id: Set(ids) }. */
export async function readUses(services, document) {
  const uses = new Map(services.map((service) => [service.id, new Set()]));
  const byPrefix = services.map((service) => [service.name.toUpperCase().replace(/[^A-Z0-9]+/g, "_"), service]);
  const lists = await Promise.all(services.map(pathOf).map((path) => (document.at("GET", `${path}/environmentVariable`) ? api.all(`${path}/environmentVariable`) : [])));
  services.forEach((service, index) => {
    for (const variable of lists[index]) {
      for (const [prefix, other] of byPrefix) {
        if (other.id === service.id) continue;
        const isNamed = (variable.value || "").includes(`{{${prefix}_`) || variable.aliased_variable?.key?.startsWith(`${prefix}_`);
        if (isNamed || (other.url && (variable.value || "").includes(other.url))) uses.get(service.id).add(other.id);
      }
    }
  });
  return uses;
}

export function graph(services, uses) {
  const columns = layers(services, uses);
  const at = new Map();
  columns.forEach((column, x) => column.forEach((service, y) => at.set(service.id, { x: x * (BOX.width + BOX.across) + 2, y: y * (BOX.height + BOX.down) + 2 })));
  const width = columns.length * (BOX.width + BOX.across) - BOX.across + 4;
  const height = Math.max(...columns.map((column) => column.length)) * (BOX.height + BOX.down) - BOX.down + ARC + 4;
  const lines = services.flatMap((service) => [...uses.get(service.id) || []].filter((other) => at.has(other)).map((other) => line(at.get(service.id), at.get(other))));
  return h("div", { class: "graph", tabindex: "0", role: "group", "aria-label": words.environmentPage.graph },
    svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height },
      svg("defs", {}, svg("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" }, svg("path", { d: "M0 0L8 4L0 8z" }))),
      lines, services.map((service) => box(service, at.get(service.id)))),
    !lines.length && h("p", { class: "muted" }, words.environmentPage.noUses));
}

function box(service, { x, y }) {
  const kind = serviceKind(service);
  return svg("a", { href: `/console${pathOf(service)}`, key: service.id, "aria-label": `${service.name}, ${stateOf(service)}` },
    svg("rect", { x, y, width: BOX.width, height: BOX.height, rx: 8, class: `node ${kind}` }),
    svg("text", { x: x + 14, y: y + 21, class: "node-name" }, service.name.length > 22 ? `${service.name.slice(0, 21)}…` : service.name),
    svg("text", { x: x + 14, y: y + 38, class: "node-about" }, `${words.readable(service.service_type)} · ${stateOf(service)}`));
}

// What does not lead to the next column leads below the boxes, which would hide it.
function line(from, to) {
  if (to.x - from.x !== BOX.width + BOX.across) return below(from, to);
  const begin = { x: from.x + BOX.width, y: from.y + BOX.height / 2 };
  const end = { x: to.x, y: to.y + BOX.height / 2 };
  const bend = Math.max(40, (end.x - begin.x) / 2);
  return arrow(`M${begin.x} ${begin.y}C${begin.x + bend} ${begin.y} ${end.x - bend} ${end.y} ${end.x} ${end.y}`);
}

function below(from, to) {
  const begin = { x: from.x + BOX.width * 0.6, y: from.y + BOX.height };
  const end = { x: to.x + BOX.width * 0.4, y: to.y + BOX.height };
  const low = Math.max(begin.y, end.y) + ARC;
  return arrow(`M${begin.x} ${begin.y}C${begin.x} ${low} ${end.x} ${low} ${end.x} ${end.y}`);
}

const arrow = (d) => svg("path", { class: "use", d, "marker-end": "url(#arrow)" });

// Columns: who is used stands to the right of those who use it. What closes a circle leads back, and moves nothing.
function layers(services, uses) {
  const order = [];
  const seen = new Set();
  const visit = (id) => {
    if (seen.has(id)) return;
    seen.add(id);
    for (const other of uses.get(id) || []) visit(other);
    order.unshift(id);
  };
  for (const { id } of services) visit(id);
  const places = new Map(order.map((id, index) => [id, index]));
  const depth = new Map();
  for (const id of order) {
    for (const other of uses.get(id) || []) {
      if (places.get(other) > places.get(id)) depth.set(other, Math.max(depth.get(other) || 0, (depth.get(id) || 0) + 1));
    }
  }
  const columns = [];
  for (const service of services) (columns[depth.get(service.id) || 0] ||= []).push(service);
  return columns.filter(Boolean);
}
