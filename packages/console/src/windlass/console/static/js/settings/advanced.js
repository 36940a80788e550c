// Advanced settings: those that act, in the section of the settings where people look for them. They are a resource of their own
// beside the service, and a key without a value has its default.

import { api } from "../api.js";
import { h } from "../dom.js";
import { schemaForm } from "../forms.js";
import { field } from "../parts.js";
import { words } from "../words.js";
import { advanced } from "../words_of_advanced.js";
import { amount, differs } from "./part.js";

const text = advanced;

// [section, group, keys]; the texts of each key are in `words_of_advanced.js`.
const GROUPS = [
  ["traffic", "guests", ["network.ingress.whitelist_source_range", "network.ingress.denylist_source_range", "network.ingress.basic_auth_env_var", "windlass.rate_limit.requests_per_minute", "windlass.rate_limit.burst"]],
  ["traffic", "requests", ["network.ingress.force_ssl_redirect", "windlass.hsts.max_age_seconds", "network.ingress.proxy_body_size_mb", "windlass.compression.enable", "network.ingress.extra_headers", "network.ingress.enable_sticky_session", "windlass.access_log.format"]],
  ["traffic", "cors", ["network.ingress.enable_cors", "network.ingress.cors_allow_origin", "network.ingress.cors_allow_methods", "network.ingress.cors_allow_headers"]],
  ["traffic", "times", ["network.gateway_api.http_request_timeout_seconds", "network.ingress.proxy_connect_timeout_seconds", "network.ingress.proxy_read_timeout_seconds", "network.ingress.proxy_send_timeout_seconds", "network.ingress.send_timeout_seconds",
    "network.ingress.keepalive_timeout_seconds", "network.gateway_api.http_connection_idle_timeout_seconds", "network.ingress.keepalive_time_seconds"]],
  ["traffic", "retries", ["network.gateway_api.retry.num_retries", "network.gateway_api.retry.retry_on", "network.gateway_api.retry.http_status_codes", "network.gateway_api.retry.per_try_timeout_seconds"]],
  ["traffic", "sleep", ["windlass.sleep.after_minutes", "windlass.sleep.although_called"]],
  ["traffic", "pages", ["windlass.maintenance.enable", "windlass.maintenance.allowed_source_range", "windlass.maintenance.page", "windlass.pages.error"]],
  ["build", "build", ["build.timeout_max_sec", "build.disable_buildkit_cache", "build.cpu_max_in_milli", "build.ram_max_in_gib"]],
  ["start", "replacing", ["deployment.update_strategy.type", "deployment.termination_grace_period_seconds", "deployment.lifecycle.post_start_exec_command", "deployment.lifecycle.pre_stop_exec_command", "security.read_only_root_filesystem"]],
  ["schedule", "runs", ["cronjob.concurrency_policy", "cronjob.success_jobs_history_limit", "cronjob.failed_jobs_history_limit", "job.delete_ttl_seconds_after_finished"]],
];
const NUMBERS = ["times", "retries", "build", "runs"]; // groups that are mostly numbers, side by side
const OTHERS = "other";
const LONG = /^windlass\..*page|\.error$|extra_headers$|cors_allow_(methods|headers)$/;

/** The parts by their sections, or null if the service has none. `pending` returns what is not saved yet, `save` sends it. */
export function advancedParts({ document, path, service }) {
  const place = `${path}/advancedSettings`;
  const operation = document.at("PUT", place);
  if (!operation) return null;
  const { properties } = document.body(operation);
  const acting = Object.fromEntries(Object.entries(properties).map(([name, schema]) => [name, document.resolve(schema)]).filter(([, schema]) => schema["x-acts"]));
  const present = service.advanced_settings || {};
  const controls = {};
  const parts = {};
  const put = (section, part) => (parts[section] ||= []).push({ fields: [], changes: () => ({}), ...part });
  for (const [section, group, keys] of GROUPS) {
    const there = keys.filter((key) => acting[key]);
    for (const key of there) controls[key] = control(key, acting[key], present[key]);
    if (there.length) put(section, { title: text.groups[group].title, about: text.groups[group].about, node: h("div", { class: NUMBERS.includes(group) ? "fields in-columns" : "fields" }, there.map((key) => controls[key].node)) });
  }
  // One that this page does not know yet is drawn as the API describes it.
  const unknown = Object.keys(acting).filter((key) => !controls[key]);
  const rest = unknown.length > 0 && schemaForm(document, document.body(operation), { values: present, only: unknown });
  if (rest) put(OTHERS, { title: text.groups.other.title, about: text.groups.other.about, node: rest.node });
  const pending = () => ({ ...Object.fromEntries(Object.entries(controls).map(([key, { change }]) => [key, change()]).filter(([, value]) => value !== undefined)), ...(rest ? rest.changes() : {}) });
  const body = () => Object.fromEntries(Object.entries({ ...present, ...pending() }).filter(([, value]) => value !== null));
  return { parts, pending, isNow: (key) => acting[key]?.["x-acts"] === "AT_ONCE", save: (tag) => api.put(place, body(), tag) };
}

// A control returns what differs from what is set: null for the default again.
function control(key, schema, value) {
  const [label, help = "", unit = ""] = text.names[key];
  const usual = schema.default;
  const made = controlOf(key, schema, value, unit);
  const change = () => {
    const now = made.read();
    if (!differs(now, value)) return undefined;
    if (now === undefined || !differs(now, usual)) return value === undefined ? undefined : null;
    return now;
  };
  const node = field(label, made.input, help, { isSwitch: made.isSwitch, name: key });
  if (made.node) node.insertBefore(made.node, node.querySelector(".help")), made.node.prepend(made.input);
  return { node, change };
}

function controlOf(key, schema, value, unit) {
  const touch = (event) => (event.target.touched = true);
  if (schema.type === "boolean") {
    const input = h("input", { type: "checkbox", role: "switch", checked: value ?? schema.default, onchange: touch });
    return { input, isSwitch: true, read: () => input.checked };
  }
  if (schema.enum) {
    const input = h("select", {}, schema.enum.map((name) => h("option", { value: name, selected: name === (value ?? schema.default) }, text.choices[name] || words.readable(name))));
    return { input, read: () => input.value };
  }
  if (schema.type === "integer") {
    const { input, node, read } = amount(value, unit, { min: schema.minimum ?? 0, max: schema.maximum, placeholder: schema.default ?? (schema.nullable ? "" : text.byServer) });
    input.addEventListener("input", touch);
    return { input, node, read: () => read() ?? undefined };
  }
  const isList = schema.type === "array"; // a command, one word on each line
  const shown = isList ? (value || []).join("\n") : value ?? "";
  const placeholder = isList ? words.onePerLine : schema.default || "";
  const input = isList || LONG.test(key) ? h("textarea", { rows: 3, class: "code", spellcheck: "false", value: shown, placeholder, oninput: touch }) : h("input", { value: shown, placeholder, autocomplete: "off", spellcheck: "false", oninput: touch });
  const read = () => (input.value === "" ? undefined : isList ? input.value.split("\n").filter(Boolean) : input.value);
  return { input, read };
}
