// How Windlass finds out whether an instance is well: one kind of check with its fields, which can be tried before it is saved.

import { api } from "../api.js";
import { fill, h } from "../dom.js";
import { duration } from "../format.js";
import { stateIcon } from "../states.js";
import { button, field } from "../parts.js";
import { words } from "../words.js";
import { amount, differs, segments } from "./part.js";

const text = words.settings.health;
const NONE = "none";
const KINDS = [NONE, "http", "tcp", "exec"];
const TIMES = [["initial_delay_seconds", 30, 0, true], ["period_seconds", 10, 1, true], ["timeout_seconds", 5, 1, true], ["success_threshold", 1, 1], ["failure_threshold", 9, 1]];

export const fields = ["healthchecks"];

export function edit({ document, service, path }) {
  const known = service.healthchecks || {};
  const ports = (service.ports || []).filter(({ protocol }) => protocol !== "UDP").map(({ internal_port: port }) => port);
  const parts = ["readiness_probe", "liveness_probe"].map((name) => [name, probe(known[name], ports)]);
  const canTry = document.at("POST", `${path}/checkHealth`);
  const node = h("div", { "data-field": "healthchecks" }, parts.map(([name, part]) =>
    h("section", { class: "probe", "data-field": name }, h("h3", {}, text[name]), h("p", { class: "help" }, text.abouts[name]), part.node, canTry && part.tryIt(path))));
  const changes = () => {
    const changed = parts.map(([name, part]) => [name, part.change()]).filter(([, value]) => value !== undefined);
    return changed.length ? { healthchecks: Object.fromEntries(changed) } : {};
  };
  return { title: "", node, changes };
}

function probe(present, ports) {
  const type = present?.type || {};
  const before = Object.keys(type).find((kind) => type[kind]) || NONE;
  let kind = before;
  const port = (value) => amount(value ?? ports[0], null, { min: 1, max: 65535 });
  const line = (value, placeholder) => h("input", { value, placeholder, class: "code", spellcheck: "false", autocomplete: "off", oninput: (event) => (event.target.touched = true) });
  const asked = { http: port(type.http?.port), tcp: port(type.tcp?.port), grpc: port(type.grpc?.port) };
  const address = line(type.http?.path || "/", "/healthz");
  const tls = h("input", { type: "checkbox", checked: /^https$/i.test(type.http?.scheme || "") });
  const command = line(lineOf(type.exec?.command || []), "pg_isready -q");
  const called = line(type.grpc?.service || "", "");
  const forms = {
    http: [h("div", { class: "line" }, field(text.path, address, "", { name: "path" }), field(text.port, asked.http.input, "", { name: "port" })), field(text.tls, tls, "", { isSwitch: true, name: "scheme" })],
    tcp: [h("div", { class: "line narrow" }, field(text.port, asked.tcp.input, text.tcpHelp, { name: "port" }))],
    exec: [field(text.command, command, text.commandHelp, { name: "command" })],
    grpc: [h("div", { class: "line" }, field(text.service, called, "", { name: "service" }), field(text.port, asked.grpc.input, "", { name: "port" }))],
  };
  const times = TIMES.map(([name, usual, min, isTime]) => [name, amount(present?.[name] ?? usual, null, { min }), isTime]);
  const boxes = Object.entries(forms).map(([name, inside]) => [name, h("div", { "data-field": name }, inside)]);
  const timing = h("details", {}, h("summary", {}, text.timing), h("div", { class: "times" }, times.map(([name, part, isTime]) => field(text.times[name], part.input, isTime ? text.seconds : "", { name }))));
  const outcome = h("div", { class: "outcome", role: "status" });
  const trial = h("div", { class: "actions" });
  const show = () => {
    for (const [name, box] of boxes) box.hidden = name !== kind;
    timing.hidden = kind === NONE;
    trial.hidden = [NONE, "exec"].includes(kind); // A command is tried in a terminal, where it is in the audit.
  };
  show();
  const kinds = KINDS.includes(before) ? KINDS : [...KINDS, before];
  const own = {
    http: () => ({ ...type.http, path: address.value || "/", port: asked.http.read(), scheme: tls.checked ? "HTTPS" : type.http?.scheme ? "HTTP" : undefined }),
    tcp: () => ({ ...type.tcp, port: asked.tcp.read() }),
    exec: () => ({ command: command.value === lineOf(type.exec?.command || []) ? type.exec?.command || [] : wordsOf(command.value) }),
    grpc: () => ({ ...type.grpc, service: called.value || null, port: asked.grpc.read() }),
  };
  const timesNow = () => Object.fromEntries(times.map(([name, part]) => [name, part.read()]));
  const read = () => (kind === NONE ? null : { type: { [kind]: own[kind]() }, ...timesNow() });
  // A merge patch names the kinds that are gone.
  const change = () => {
    const now = read();
    if (!now) return present?.type ? null : undefined;
    const same = present && { type: { [before]: type[before] }, ...Object.fromEntries(TIMES.map(([name, usual]) => [name, present[name] ?? usual])) };
    if (same && kind === before && !differs(sorted(now), sorted(same))) return undefined;
    const gone = Object.keys(type).filter((name) => name !== kind).map((name) => [name, null]);
    return { ...now, type: { ...Object.fromEntries(gone), ...now.type } };
  };
  const box = h("div", {}, segments(text.kind, kinds.map((name) => [name, text.kinds[name]]), kind, (value) => ((kind = value), outcome.replaceChildren(), show())), boxes.map(([, inside]) => inside), timing);
  const tryIt = (path) => [fill(trial, button(text.tryIt, async () => fill(outcome, shown(await api.post(`${path}/checkHealth`, { probe: read() }))), { icon: "play", needs: ["POST", `${path}/checkHealth`] })), outcome];
  return { node: box, change, tryIt };
}

// How each instance answered just now.
function shown({ instances }) {
  if (!instances.length) return h("p", { class: "muted" }, text.nothingRuns);
  return h("ul", { class: "plain" }, instances.map(({ instance, is_healthy: isHealthy, message, took_ms: took }) =>
    h("li", { class: `state ${isHealthy ? "ok" : "bad"}` }, stateIcon(isHealthy ? "ok" : "bad"), h("span", {}, text.answered(instance, isHealthy), " ", isHealthy ? h("span", { class: "muted" }, duration(took)) : message))));
}

const sorted = (value) => (value && typeof value === "object" && !Array.isArray(value) ? Object.fromEntries(Object.keys(value).sort().filter((name) => value[name] !== undefined && value[name] !== null).map((name) => [name, sorted(value[name])])) : value);

// A command is a list of words for the API. A line that needs a shell is given to one.
const lineOf = (command) => (command[0] === "sh" && command[1] === "-c" ? command[2] || "" : command.join(" "));
const wordsOf = (line) => (/^[\w@%+=:,./ -]+$/.test(line) ? line.split(/ +/).filter(Boolean) : ["sh", "-c", line]);
