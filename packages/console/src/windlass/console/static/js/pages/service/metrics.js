// Charts of the last hour, of a part of it, or of a longer time: processor, memory, requests and latency.

import { api } from "../../api.js";
import { now } from "../../clock.js";
import { h, own } from "../../dom.js";
import { chart } from "../../charts.js";
import { bytes, clockTime, number } from "../../format.js";
import { empty } from "../../parts.js";
import { segments } from "../../settings/part.js";
import { willOf } from "../../services.js";
import { words } from "../../words.js";

const EVERY = 15000;
const SILENT = 5; // samples: more than a minute
const HOUR = 60; // minutes
const PARTS = [15, HOUR]; // minutes of the measurements of the last hour
const LONG = ["24h", "7d", "30d"]; // as the API has them
const text = words.metrics;

export async function load({ path }) {
  const content = { span: HOUR };
  const refresh = async () => {
    const { span } = content;
    const data = await api.get(LONG.includes(span) ? `${path}/metrics?span=${span}` : `${path}/metrics`);
    if (span === content.span) Object.assign(content, { data, shown: span });
  };
  await refresh();
  return Object.assign(content, { refreshing: { refresh, every: EVERY } });
}

export function render({ content, path, can }, place) {
  const choose = async (span) => {
    content.span = span;
    // A part of the hour is there already. The charts of a longer time replace the present ones once they have come.
    if (!PARTS.includes(span) || LONG.includes(content.shown)) await content.refreshing.refresh();
    place.update();
  };
  content.choice ||= segments(text.span, [...PARTS.map((minutes) => [minutes, text.minutes(minutes)]), ...LONG.map((span) => [span, text.spans[span]])], content.span, choose);
  return [h("div", { class: "tools" }, own(content.choice)), charts({ data: lastOf(content), span: spanOf(content) }, { path, lasts: can("restart-service") })];
}

// The measurements of the last minutes of those that the server has.
function lastOf({ data, shown, span }) {
  return LONG.includes(shown) ? data : partOf(data, span);
}

// Milliseconds from one edge of a chart to the other. The server answers a longer time from end to end.
const spanOf = ({ shown, span }) => (LONG.includes(shown) ? 0 : span * 60000);

function partOf(data, span) {
  const since = now() - span * 60000;
  const first = (data.times || []).findIndex((time) => new Date(time) >= since);
  if (first <= 0) return data;
  const cut = (values) => values.slice(first);
  const { requests } = data;
  return {
    ...data, times: cut(data.times), instances: data.instances.map((instance) => ({ ...instance, cpu: cut(instance.cpu), memory: cut(instance.memory) })),
    requests: requests && { ...Object.fromEntries(["p50", "p90", "p99"].map((name) => [name, cut(requests[name])])), by_status: Object.fromEntries(Object.entries(requests.by_status).map(([name, values]) => [name, cut(values)])) },
  };
}

// Old values do not pass for present ones: the instances have ended, or nothing measures them.
function silence({ times, instances }) {
  if (!times?.length || !instances.length) return null;
  const newest = times.findLastIndex((_, index) => instances.some(({ cpu, memory }) => cpu[index] !== null || memory[index] !== null));
  return newest >= 0 && newest < times.length - SILENT ? h("p", { class: "stale", role: "status" }, text.silent(clockTime(times[newest]))) : null;
}

// Each run of a job is an instance of its own, and ends: of the present one there is a line.
function linesOf(instances, times, field, lasts) {
  const nameOf = (instance) => text.instance(instance.name);
  if (lasts) return instances.map((instance) => ({ name: nameOf(instance), values: instance[field] }));
  return instances.length ? [{ name: "", values: times.map((_, index) => instances.reduce((sum, instance) => add(sum, instance[field][index]), null)) }] : [];
}

const add = (sum, value) => (value === null ? sum : (sum || 0) + value);

export function charts({ data, span = HOUR * 60000 }, { small, path, lasts }) {
  const { times, instances, requests, usage } = data;
  if (!times?.length) return empty(willOf(path, "metricsEmpty", text.empty));
  const lines = (field) => (usage ? [{ name: "", values: usage[field] }] : linesOf(instances, times, field, lasts));
  const named = (field, scale = 1) => lines(field).map(({ name, values }) => ({ name, values: values.map((value) => (value === null ? null : value * scale)) }));
  const drawChart = (parts) => chart({ ...parts, times, span });
  const drawn = [
    drawChart({ title: text.cpu, lines: named("cpu", 0.1), format: (value) => text.percent(Math.round(value * 10) / 10) }),
    drawChart({ title: text.memory, lines: named("memory"), format: bytes }),
    usage && Math.max(...usage.instances) > 1 && drawChart({ title: text.instances, lines: lines("instances"), format: number }),
    requests && drawChart({ title: text.requests, lines: Object.entries(requests.by_status).map(([name, values]) => ({ name, values })), format: (value) => text.perSecond(number(Math.round(value * 10) / 10)) }),
    requests && drawChart({ title: text.latency, lines: ["p50", "p90", "p99"].map((name) => ({ name, values: requests[name] })), format: (value) => `${Math.round(value)} ms` }),
  ];
  return [silence(data), h("div", { class: small ? "charts small" : "charts" }, drawn)];
}
