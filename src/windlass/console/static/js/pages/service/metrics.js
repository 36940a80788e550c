// Charts of the last hour: processor, memory, requests and latency.

import { api } from "../../api.js";
import { h } from "../../dom.js";
import { chart } from "../../charts.js";
import { bytes, number } from "../../format.js";
import { empty } from "../../parts.js";
import { words } from "../../words.js";

const EVERY = 15000;
const text = words.metrics;

export async function load({ path }) {
  return { data: await api.get(`${path}/metrics`) };
}

export function watch(state, place, draw) {
  const timer = setInterval(async () => {
    if (document.hidden) return;
    state.content.data = await api.get(`${state.path}/metrics`).catch(() => state.content.data);
    draw();
  }, EVERY);
  place.onStop(() => clearInterval(timer));
}

export const render = ({ content }) => charts(content, {});

export function charts({ data }, { small }) {
  const { times, instances, requests } = data;
  if (!times?.length) return empty(text.empty);
  const named = (field, scale = 1) => instances.map((instance) => ({ name: instance.name, values: instance[field].map((value) => (value === null ? null : value * scale)) }));
  const drawn = [
    chart({ title: text.cpu, times, lines: named("cpu", 0.1), format: (value) => text.percent(Math.round(value * 10) / 10) }),
    chart({ title: text.memory, times, lines: named("memory"), format: bytes }),
    requests && chart({ title: text.requests, times, lines: Object.entries(requests.by_status).map(([name, values]) => ({ name, values })), format: (value) => text.perSecond(number(Math.round(value * 10) / 10)) }),
    requests && chart({ title: text.latency, times, lines: ["p50", "p90", "p99"].map((name) => ({ name, values: requests[name] })), format: (value) => `${Math.round(value)} ms` }),
  ];
  return h("div", { class: small ? "charts small" : "charts" }, drawn);
}
