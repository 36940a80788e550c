// A cluster: this machine or another one with Docker, how its certificates are made, whether its engine answers, and what is free on it.

import { api } from "../api.js";
import { h, prose } from "../dom.js";
import { bytes, exactTime, title } from "../format.js";
import { icon, logo } from "../icons.js";
import { button, dialog, facts, field, link, panel, showError } from "../parts.js";
import { differs } from "../settings/part.js";
import { badge } from "../states.js";
import { words } from "../words.js";
import { organizationForms } from "../words_of_forms.js";
import { organizationTexts } from "../words_of_organization.js";
import { providers } from "./provider.js";

const text = organizationForms.clusterForm;
const about = organizationTexts.cluster;
const FIELDS = { DOCKER: ["engine_address", "engine_ca_certificate", "engine_certificate", "engine_key"], LOCAL: ["place"] };
const SELDOM = { DOCKER: ["router_port", "engine_id"], LOCAL: [] };
const PEM = "-----BEGIN CERTIFICATE-----";
const EXAMPLES = { name: "workshop", description: text.descriptionExample, place: "local", engine_address: "tcp://10.0.0.5:2376", engine_ca_certificate: PEM, engine_certificate: PEM, engine_key: "-----BEGIN PRIVATE KEY-----" };

export async function form({ values }) {
  const known = values || {};
  const touch = (event) => (event.target.touched = true);
  const inputs = {};
  const made = (name) => {
    const isLong = EXAMPLES[name]?.startsWith("-----");
    const placeholder = name === "engine_key" && known.has_engine_key ? text.keyKept : EXAMPLES[name] || "";
    inputs[name] ||= h(isLong ? "textarea" : "input", { value: known[name] ?? "", rows: isLong && 3, class: isLong && "code", type: name === "router_port" ? "number" : null, placeholder, autocomplete: "off", spellcheck: "false", oninput: touch });
    return field(text.names[name] || title(name), inputs[name], text.helps[name] || "", { name });
  };
  const valueOf = (name) => (name === "router_port" && inputs[name].value ? Number(inputs[name].value) : inputs[name].value.trim());
  let engine;
  const shown = (one) => ["name", "description", ...FIELDS[one], ...SELDOM[one]];
  const fields = (one) => {
    engine = one;
    return {
      node: h("div", {}, h("div", { class: "line" }, made("name"), made("description")), FIELDS[one].map(made), SELDOM[one].length > 0 && h("details", {}, h("summary", {}, words.newService.further), SELDOM[one].map(made))),
      read: () => Object.fromEntries(shown(one).map((name) => [name, valueOf(name)]).filter(([, value]) => value !== "")),
    };
  };
  const kinds = [["LOCAL", text.local, text.localAbout, icon("server", "large")], ["DOCKER", text.docker, text.dockerAbout, logo("docker", "large")]];
  const wizard = providers(text.kind, kinds, "engine", (one) => (known.engine === one ? [] : text.steps[one].map(prose)), fields, known.engine || "DOCKER");
  // Fields of the engine that is left are sent as null.
  const changes = () => {
    const names = shown(engine);
    const found = Object.fromEntries(names.map((name) => [name, valueOf(name)]).filter(([name, value]) => (name === "engine_key" ? value : differs(value, known[name] ?? ""))).map(([name, value]) => [name, value === "" && name !== "description" ? null : value]));
    if (engine === known.engine) return found;
    const gone = Object.values({ ...FIELDS, more: SELDOM.DOCKER }).flat().filter((name) => !names.includes(name) && known[name]);
    return { ...found, engine, ...Object.fromEntries(gone.map((name) => [name, null])) };
  };
  return { node: wizard.node, read: wizard.read, changes };
}

/** Asks the engine of a cluster that was made just now. One that does not answer is kept only if it is wanted. */
export async function create(path, body) {
  const made = await api.post(path, body);
  const { status, message } = await api.get(`${path}/${made.id}/status`);
  if (status === "DEPLOYED") return made;
  const isKept = await dialog(text.silent, (finish) => [h("p", {}, prose(message || text.noReason)), h("div", { class: "dialog-actions" }, button(text.back, () => finish(false), { main: true }), button(text.keep, () => finish(true)))]);
  if (isKept) return made;
  await api.delete(`${path}/${made.id}`);
  return null;
}

/** What a page of a cluster needs beside it: the environments on it. */
export async function loadMore({ base, item }) {
  const [environments, projects] = await Promise.all(["environments", "project"].map((name) => api.seen(`${base}/${name}`, api.all)));
  const nameOf = (environment) => projects?.find(({ id }) => id === environment.project?.id)?.name;
  return (environments || []).filter(({ cluster_id: id }) => id === item.id).map((environment) => ({ ...environment, project_name: nameOf(environment) }));
}

/** Lists that say nothing of a cluster here: Windlass makes no networks. */
export const unlisted = ["routingTable"];

/** A cluster at present: its state, its machine, and the environments on it. */
export function present(state, place) {
  const { item, readings, more: environments } = state;
  const of = (name) => readings.find(({ operation }) => operation.path.endsWith(`/${name}`)) || {};
  const status = of("status").found, machine = of("machine").found;
  const lock = status?.cluster_lock;
  return [
    lock && h("section", { class: "panel failure", role: "status" }, h("p", { class: "first" }, about.locked(lock.owner_name, lock.ends_at && exactTime(lock.ends_at))), h("p", {}, lock.reason), h("div", { class: "actions" }, button(about.unlock, () => unlock(state, place), { needs: ["DELETE", `/cluster/${item.id}/lock`] }))),
    status?.message && h("section", { class: "panel failure", role: "status" }, h("p", { class: "first" }, prose(status.message))),
    h("div", { class: "columns" },
      panel(words.present, facts([
        [about.state, badge(status ? status.status : item.status)],
        [about.kind, kindOf(item)],
        status && [about.images, status.runs_images ? about.runsImages : about.noImages],
        item.is_default && [about.isDefault, about.byDefault],
      ]), !lock && h("div", { class: "actions" }, button(about.lock, () => askToLock(state, place), { needs: ["POST", `/cluster/${item.id}/lock`] }))),
      panel(about.environments, environments.length ? h("ul", { class: "plain" }, environments.map((environment) => h("li", { key: environment.id }, environment.project_name && h("span", { class: "muted" }, `${environment.project_name} / `), link(`/environment/${environment.id}`, environment.name)))) : h("p", { class: "muted" }, about.noEnvironments))),
    panel(about.machine, machineFacts(of("machine"), machine)),
  ];
}

async function askToLock({ item, list }, place) {
  const reason = h("input", { maxlength: 256, placeholder: about.lockReasonExample, autocomplete: "off" });
  const days = h("input", { type: "number", min: 1, max: 365 });
  const isLocked = await dialog(about.lock, (finish) => {
    const send = async () => {
      try {
        await api.post(`/cluster/${item.id}/lock`, { reason: reason.value.trim(), ...(days.value && { ttl_in_days: Number(days.value) }) });
        finish(true);
      } catch (error) {
        showError(error);
      }
    };
    return [h("p", {}, about.lockAbout), field(about.lockReason, reason, "", { name: "reason" }), field(about.lockDays, days, about.lockDaysHelp, { name: "ttl_in_days" }), h("div", { class: "dialog-actions" }, button(words.cancel, () => finish()), button(about.lock, send, { main: true }))];
  });
  if (isLocked) await place.go(`${list}/${item.id}`, { replace: true });
}

async function unlock({ item, list }, place) {
  await api.delete(`/cluster/${item.id}/lock`);
  await place.go(`${list}/${item.id}`, { replace: true });
}

function machineFacts({ error }, machine) {
  if (!machine) return h("p", { class: error ? "message trouble" : "muted" }, error ? prose(error.message) : words.reading);
  if (machine.message) return h("p", { class: "muted" }, about.noMachine, prose(machine.message));
  const room = (free, whole) => whole && [h("meter", { min: 0, max: whole, value: whole - free, high: whole * 0.9, optimum: 0 }), ` ${words.freeOf(bytes(free), bytes(whole))}`];
  return facts([
    [about.version, machine.version], [about.system, machine.system], machine.cores && [about.cores, about.load(machine.cores, machine.load ?? "–")],
    [about.memory, room(machine.memory_available_bytes, machine.memory_bytes)],
    [about.disk, machine.disk_bytes && [room(machine.disk_free_bytes, machine.disk_bytes), machine.disk_reserve_bytes > 0 && h("p", { class: "muted fine" }, about.reserve(bytes(machine.disk_reserve_bytes)))]],
  ]);
}

const kindOf = ({ engine, engine_address: address, place }) => (engine === "DOCKER" ? about.docker(address) : engine ? about.local(place) : about.none);

export const columns = [
  { title: about.state, cell: ({ status }) => badge(status) },
  { title: about.kind, kind: "titled", cell: kindOf },
  { title: about.isDefault, kind: "titled", cell: (row) => row.is_default && h("span", { class: "tag" }, about.here) },
];
