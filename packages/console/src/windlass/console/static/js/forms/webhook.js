// The form of a webhook: where to, which events (each once), and what an example was answered.

import { api } from "../api.js";
import { h, prose } from "../dom.js";
import { ago, duration, title } from "../format.js";
import { pause } from "../live.js";
import { button, dialog, field } from "../parts.js";
import { differs, segments } from "../settings/part.js";
import { badge } from "../states.js";
import { words } from "../words.js";
import { organizationForms } from "../words_of_forms.js";

const text = organizationForms.webhookForm;
const EVENTS = ["DEPLOYMENT_STARTED", "DEPLOYMENT_SUCCEEDED", "DEPLOYMENT_FAILED", "DEPLOYMENT_CANCELLED"];
const OTHER_NAMES = { DEPLOYMENT_SUCCESSFUL: "DEPLOYMENT_SUCCEEDED", DEPLOYMENT_FAILURE: "DEPLOYMENT_FAILED" }; // The same events have two names in the API.
const USUAL = ["DEPLOYMENT_SUCCEEDED", "DEPLOYMENT_FAILED"];
const MODES = ["PRODUCTION", "STAGING", "DEVELOPMENT", "PREVIEW"];
const LOOKS = 20;

export async function form({ base, values }) {
  const known = values || {};
  const projects = await api.seen(`${base}/project`, api.all);
  const named = known.events || []; // as they are named there, so that a receiver goes on understanding them
  const first = named.length ? named.map((name) => OTHER_NAMES[name] || name) : USUAL;
  let kind = known.kind || "STANDARD";
  const touch = (event) => (event.target.touched = true);
  const url = h("input", { type: "url", value: known.target_url || "", autocomplete: "off", spellcheck: "false", oninput: touch });
  const description = h("input", { value: known.description || "", placeholder: text.descriptionExample, oninput: touch });
  const secret = h("input", { type: "password", autocomplete: "new-password", placeholder: known.target_secret_set ? text.secretKept : "", oninput: touch });
  const enabled = h("input", { type: "checkbox", role: "switch", checked: known.enabled ?? true });
  const boxes = (options, chosen) => options.map(([value, label]) => [value, label, h("input", { type: "checkbox", checked: chosen.includes(value) })]);
  const events = boxes(EVENTS.map((name) => [name, text.events[name]]), first);
  const modes = boxes(MODES.map((name) => [name, words.readable(name)]), known.environment_types_filter || []);
  const names = [...new Set([...(projects || []).map(({ name }) => name), ...(known.project_names_filter || [])])];
  const inProjects = boxes(names.map((name) => [name, name]), known.project_names_filter || []);
  const chosen = (parts) => parts.filter(([, , box]) => box.checked).map(([value]) => value);
  const checks = (name, heading, parts, help) => h("fieldset", { class: "field", "data-field": name }, h("legend", {}, heading), help && h("p", { class: "help" }, help), h("div", { class: "choices" }, parts.map(([, label, box]) => h("label", {}, box, " ", label))));
  const signing = h("div", { class: "signing" }, field(text.secret, secret, text.secretHelp, { name: "target_secret" }), button(text.generate, () => generate(secret), { small: true, icon: "key-round" }));
  const show = () => {
    signing.hidden = kind !== "STANDARD";
    url.placeholder = kind === "SLACK" ? "https://hooks.slack.com/services/…" : "https://example.com/hooks/deployments";
  };
  show();
  const read = () => {
    const body = { kind, target_url: url.value.trim() || undefined, events: chosen(events), description: description.value, environment_types_filter: chosen(modes), project_names_filter: chosen(inProjects) };
    if (named.length) Object.assign(body, { events: body.events.map((name) => named.find((other) => (OTHER_NAMES[other] || other) === name) || name), enabled: enabled.checked });
    if (secret.value) body.target_secret = secret.value;
    return body;
  };
  const changes = () => Object.fromEntries(Object.entries(read()).filter(([name, value]) => differs(name === "events" ? [...value].sort() : value, name === "events" ? [...named].sort() : known[name])));
  const limits = h("details", { open: chosen(modes).length + chosen(inProjects).length > 0 }, h("summary", {}, text.only), checks("environment_types_filter", text.modes, modes), names.length > 0 && checks("project_names_filter", text.projects, inProjects));
  return {
    read, changes,
    node: h("div", {}, segments(text.to, [["STANDARD", text.address], ["SLACK", "Slack"]], kind, (value) => ((kind = value), show())),
      field(text.url, url, "", { name: "target_url" }), checks("events", text.eventsTitle, events), field(title("description"), description, "", { name: "description" }),
      signing, limits, values && field(text.enabled, enabled, "", { isSwitch: true, name: "enabled" })),
  };
}

function generate(secret) {
  secret.value = `whsec_${btoa(String.fromCharCode(...crypto.getRandomValues(new Uint8Array(24))))}`;
  Object.assign(secret, { type: "text", touched: true });
}

/** Sends an example, and shows what the receiver answered. */
export const actions = {
  test: async ({ path }) => {
    const asked = await api.post(`${path}/test`);
    await dialog(text.tested, (finish) => {
      const place = h("div", { role: "status" }, h("p", { class: "muted" }, text.waiting));
      follow(path, asked.id, place);
      return [place, h("div", { class: "dialog-actions" }, button(words.close, () => finish(), { main: true }))];
    });
  },
};

async function follow(path, id, place) {
  for (let look = 0; look < LOOKS; look++) {
    const { results } = await api.get(`${path}/event`, { page_size: 20 });
    const event = results.find((other) => other.id === id);
    const last = event?.attempts.at(-1);
    if (last) return place.replaceChildren(answer(event, last));
    await pause(500);
  }
  place.replaceChildren(h("p", { class: "muted" }, text.noAnswer));
}

function answer(event, { status_code: status, body, error, duration_in_ms: took }) {
  const isTaken = event.status === "DELIVERED";
  return h("div", {}, h("p", {}, badge(isTaken ? "DELIVERED" : "FAILED"), " ", status ? h("strong", {}, text.answered(status)) : "", h("span", { class: "muted" }, ` ${duration(took)}`)),
    error && h("p", {}, prose(error)), body && h("pre", { class: "lines", tabindex: "0" }, body), !isTaken && h("p", { class: "muted" }, text.again));
}

export const columns = [
  { title: words.columns.state, cell: (row) => (row.disabled_reason ? h("span", { class: "state bad" }, text.disabled) : !row.enabled ? h("span", { class: "state off" }, text.off) : row.failing_since ? [h("span", { class: "state warn" }, text.failing), " ", h("span", { class: "muted" }, text.firstFailure, " ", ago(row.failing_since))] : h("span", { class: "state ok" }, text.on)) },
  { title: text.to, kind: "titled", cell: ({ kind }) => (kind === "SLACK" ? "Slack" : text.address) },
  { title: text.whenIt, kind: "titled", cell: ({ events }) => events.map((name) => text.short[OTHER_NAMES[name] || name] || words.readable(name)).join(", ") },
  { title: text.onlyFor, isRare: true, cell: (row) => [...row.environment_types_filter.map(words.readable), ...row.project_names_filter].join(", ") },
  { title: text.secret, isRare: true, cell: (row) => row.kind === "STANDARD" && (row.target_secret_set ? text.isSigned : text.unsigned) },
  { title: text.disabled, isRare: true, cell: (row) => row.disabled_reason && prose(row.disabled_reason) },
];
