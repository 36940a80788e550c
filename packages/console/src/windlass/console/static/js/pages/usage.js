// The usage of the services of an environment: the processor in the last hour as a small line, and the latest values.

import { api } from "../api.js";
import { h, svg } from "../dom.js";
import { bytes } from "../format.js";
import { pathOf } from "../services.js";
import { words } from "../words.js";

const EVERY = 60000;
const TOGETHER = 8; // points of a line that are drawn as one
const LEAST = 50; // thousandths of a processor: what is less is flat
const MOST = 30; // one request for each service
const AT_ONCE = 4; // thirty requests in one task would hold the page up

/** Reads the usage of running services, now and from time to time, into `state.usage`: { id: { cpu, memory } }. */
export function watchUsage(state, place, draw) {
  state.usage = new Map();
  const read = async () => {
    if (document.hidden) return;
    const measured = firstOf(state.services, MOST, (service) => service.running_instances && state.document.at("GET", `${pathOf(service)}/metrics`));
    const readNext = async () => {
      for (let service = measured.shift(); service; service = measured.shift()) {
        const found = await api.get(`${pathOf(service)}/metrics`, {}, place.signal).catch(() => null);
        if (found?.instances.length) state.usage.set(service.id, { cpu: sum(found, "cpu"), memory: sum(found, "memory") });
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, readNext));
    draw();
  };
  read();
  const timer = setInterval(read, EVERY);
  place.onStop(() => clearInterval(timer));
}

// Of thousands of services, no more are looked at than are needed.
function firstOf(services, most, isWanted) {
  const found = [];
  for (const service of services) {
    if (found.length === most) break;
    if (isWanted(service)) found.push(service);
  }
  return found;
}

// All instances together; unknown where no instance was measured.
function sum({ times, instances }, field) {
  return times.map((_, index) => {
    const known = instances.map((instance) => instance[field][index]).filter((value) => value !== null);
    return known.length ? known.reduce((total, value) => total + value, 0) : null;
  });
}

const newest = (values) => values.slice(-3).findLast((value) => value !== null);

/** The columns of a table. */
export function usageColumns({ usage }) {
  const column = (title, field, format, least) => ({ title, kind: "usage", cell: (service) => {
    const values = usage?.get(service.id)?.[field];
    const now = values && newest(values);
    return now === undefined ? "" : [least && sparkline(values, least), h("span", { class: "number" }, format(now))];
  } });
  return [column(words.columns.cpu, "cpu", (value) => words.metrics.percent(Math.round(value / 10)), LEAST), column(words.columns.memory, "memory", bytes)];
}

function sparkline(values, least) {
  const points = Array.from({ length: Math.ceil(values.length / TOGETHER) }, (_, index) => {
    const known = values.slice(index * TOGETHER, (index + 1) * TOGETHER).filter((value) => value !== null);
    return known.length ? Math.max(...known) : null;
  });
  const most = Math.max(...points, least);
  let isDown = false;
  const path = points.map((value, index) => {
    if (value === null) return (isDown = false), "";
    const sign = isDown ? "L" : "M";
    isDown = true;
    return `${sign}${((index / Math.max(1, points.length - 1)) * 64).toFixed(1)} ${(17 - (value / most) * 16).toFixed(1)}`;
  }).join("");
  return svg("svg", { class: "sparkline", viewBox: "0 0 64 18", width: 64, height: 18, "aria-hidden": "true" }, svg("path", { d: path }));
}
