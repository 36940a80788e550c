// The first look at a service: does it run, which version, where; and what to do if it does not.

import { api } from "../../api.js";
import { h, prose } from "../../dom.js";
import { commandFor } from "../../equivalents.js";
import { familyOf } from "../../families.js";
import { shown } from "../../forms.js";
import { ago, amountOf, duration, title } from "../../format.js";
import { code, codeBlock, copyButton, empty, button, facts, link, outside, panel, table } from "../../parts.js";
import { isShown } from "../../routes.js";
import { commitLine, deploy, deploymentLink, isVersion } from "../../services.js";
import { badge, lacksPort } from "../../states.js";
import { words } from "../../words.js";
import { network } from "../../words_of_network.js";
import { failure } from "../failure.js";
import { serving } from "../service.js";
import * as metrics from "./metrics.js";
import { runBadge } from "./runs.js";

const text = words.serviceOverview;
const more = network.overview;
const EVENTS = 5;
// Steps on the way to what the newest event says, unless they are the newest themselves.
const STEPS = /^TRIGGER_|_QUEUED$|_STARTED$/;
const isNews = ({ event_type: type }, index) => !index || !STEPS.test(type);

export async function load(state, { org }) {
  const { document, path } = state;
  const small = state.can("restart-service") ? [] : document.listsBelow(path).filter((list) => isShownHere(document, path, list) && isSmall(document, list)).map(familyOf);
  const readEvents = () => api.seen(`/organization/${org.id}/events`, (list) => api.get(list, { targetId: state.id, pageSize: EVENTS * 3 }));
  const [loaded, events, run, due, ...rows] = await Promise.all([
    state.has("metrics") && metrics.load(state).catch(absent), readEvents(), state.has("run") && api.get(`${path}/run`, { page_size: 1 }), state.has("dueTimes") && api.get(`${path}/dueTimes`, { count: 1 }), ...small.map((name) => api.all(`${path}/${name}`))]);
  const found = { events: events?.events, run: run && run.results[0], due: due?.is_active && due.due_at?.[0], runs: Boolean(run), rows: Object.fromEntries(small.map((name, index) => [name, rows[index]])) };
  const content = { ...found, metrics: loaded || null };
  const refresh = async () => {
    const [newest] = await Promise.all([readEvents(), loaded?.refreshing?.refresh()]);
    content.events = newest?.events;
  };
  return Object.assign(content, { refreshing: { refresh, every: loaded?.refreshing?.every, isQuiet: true } });
}

// Another machine may measure the service: its page is shown without charts, with the reason.
function absent(error) {
  if (error.status !== 503) throw error;
  return { error };
}

export function render(state, place) {
  const { service, status, deployments, path, links, can } = state;
  const isLasting = can("restart-service"); // a job, for instance, ends and has no instances between
  const now = isLasting ? serving(state) : deployments.find(isVersion);
  const newest = deployments[0];
  const message = status.message || (newest?.status === "FAILED" ? newest.message : "");
  if (!deployments.length && takesPushes(service)) return [h("p", {}, text.neverDeployed), pushing(service)];
  if (!deployments.length) return empty(text.neverDeployed, button(words.actions.deploy.button, () => deploy(place, path), { main: true, needs: ["POST", `${path}/deploy`] }), commandFor("windlass deploy", service.name));
  return [
    message && ["FAILED"].includes(newest?.status) || status.state.includes("ERROR")
      ? failure(message || words.readable(status.state), { path, environment: service.environment.id, name: service.name, deployments, present: now?.id, place, id: newest?.id })
      : message && h("section", { class: "panel pending" }, h("p", {}, prose(message))),
    h("div", { class: "columns" },
      panel(text.runs, facts([
        [words.columns.version, now ? [`v${now.number} `, commitLine(now)] : h("span", { class: "muted" }, text.nothing)],
        [text.by, now && `${now.commit?.author_name || now.triggered_by}`],
        [words.columns.deployed, now && ago(now.finished_at)],
        isLasting && [words.columns.instances, [status.instances ? text.ready(status.ready_instances, status.instances) : text.noInstances, scaling(service), toSettings(path, "general", more.change)]],
        isLasting && service.healthchecks && [more.health, [health(service), toSettings(path, "probes", more.change)]],
        state.content.runs && [text.nextRun, state.content.due ? ago(state.content.due) : h("span", { class: "muted" }, words.none)],
        state.content.runs && [text.lastRun, lastRun(path, state.content.run)],
        [text.source, source(service)],
        [text.resources, service.cpu && `${amountOf.cpu(service.cpu)}, ${amountOf.memory(service.memory)}`],
      ])),
      h("div", {}, isLasting && panel(text.addresses, links.length ? h("ul", { class: "plain addresses" }, links.map((link) => address(link, links))) : noAddress(service, path), state.has("customDomain") && links.length > 0 && h("p", { class: "fine" }, link(`${path}/domains`, more.toDomains))), recentEvents(state))),
    !isLasting && state.document.listsBelow(path).filter((list) => isShownHere(state.document, path, list)).map((list) => records(state, place, list)),
    state.document.readingsOf(path).filter((operation) => !isShown(familyOf(operation))).map((operation) => reading(state, place, operation)),
    state.content.metrics?.error && h("p", { class: "message muted" }, state.content.metrics.error.message),
    state.content.metrics?.data?.times?.length > 0 && state.content.metrics.data.instances.length > 0 && metrics.charts({ data: state.content.metrics.data }, { small: true, path, lasts: isLasting }),
    takesPushes(service) && pushing(service),
    panel(text.recent, table(deploymentColumns(state), deployments.slice(0, 5), { to: (deployment) => `${path}/deployments/${deployment.id}`, label: text.recent })),
  ];
}

// What people did, and what happened: the page Activity tells the rest.
function recentEvents({ content, path }) {
  if (!content.events?.length) return null;
  return panel(more.events, h("ul", { class: "plain brief" }, content.events.filter(isNews).slice(0, EVENTS).map((event) => h("li", { key: event.id }, h("span", {}, h("strong", {}, event.triggered_by || "–"), " ", words.events[event.event_type] || words.readable(event.event_type).toLowerCase(), " ", event.sub_target_type ? `${words.readable(event.sub_target_type).toLowerCase()} ${event.target_name}` : more.it), h("span", { class: "muted" }, ago(event.timestamp))))),
    h("p", { class: "fine" }, link(`${path}/activity`, more.allEvents)));
}

const toSettings = (path, section, label) => [" ", link(`${path}/settings?section=${section}`, h("span", { class: "fine" }, label))];

// The port of the program is named only where it tells addresses apart.
function address({ url, internal_port: port, remark }, links) {
  const isOneOfMany = new Set(links.map((other) => other.internal_port)).size > 1;
  return h("li", {}, outside(url, url), copyButton(url), isOneOfMany && h("span", { class: "muted" }, ` ${more.toPort(port)}`), remark && h("p", { class: "muted fine" }, remark));
}

const scaling = ({ min_running_instances: least, max_running_instances: most }) => (most === undefined || least === most ? "" : h("span", { class: "muted" }, ` (${more.scales(least, most)})`));

// What decides whether an instance gets requests.
function health({ healthchecks }) {
  const type = healthchecks?.readiness_probe?.type || {};
  if (type.http) return more.checks.http(type.http.path || "/", type.http.port);
  if (type.tcp) return more.checks.tcp(type.tcp.port);
  if (type.exec) return [more.checks.exec, " ", h("code", {}, (type.exec.command || []).join(" "))];
  return type.grpc ? more.checks.grpc(type.grpc.port) : more.checks.none;
}

// A container without a port is a usual surprise: an image does not say which of its ports is to be public.
function noAddress(service, path) {
  const { ports } = service;
  if (!ports || ports.length) return h("p", { class: "muted" }, text.noAddress);
  return [h("p", { class: lacksPort(service, "RUNNING") ? "stale" : "muted" }, text.noPort), link(`${path}/settings?section=ports`, h("span", { class: "button" }, text.toPorts))];
}

function lastRun(path, run) {
  if (!run) return h("span", { class: "muted" }, text.noRun);
  return h("span", { class: "inline" }, runBadge(run), link(`${path}/runs/${run.id}`, words.runs.number(run.number)), ago(run.started_at || run.created_at));
}

// Further readings, such as the credentials of a database, are requested only on a click.
function reading({ content, document, path, service }, place, operation) {
  const name = familyOf(operation);
  const found = content.read?.[name];
  const read = async () => {
    content.read = { ...content.read, [name]: found ? undefined : await api.get(`${path}/${name}`) };
    place.update();
  };
  const known = more.readings[name];
  return panel(known?.title || title(name), known && h("p", { class: "muted" }, known.about), found && facts(Object.entries(found).map(([field, value]) => [title(field), value === null || value === "" ? "" : Array.isArray(value) ? value.map((item) => h("div", {}, h("code", {}, String(item)))) : [h("code", {}, String(value)), copyButton(String(value))]])),
    h("div", { class: "actions" }, button(found ? words.hide : known?.show || document.operation(operation.id).summary.replace(/ \(.*\)$/, ""), read, { key: name, icon: !found && known ? "key-round" : undefined })), known && code(commandFor(known.command, service.name)));
}

// Lists without a page of their own, such as the plans of a Terraform service.
function isShownHere(document, path, list) {
  return !isShown(familyOf(list)) && !document.familiesBelow(path).includes(list);
}

// Rows of few fields, such as the outputs of a module, are shown at once; others, such as its resources, on a click.
const isSmall = (document, list) => Object.keys(document.row(list).properties || {}).length <= 5;

function smallList({ document }, list, rows) {
  const names = Object.keys(document.row(list).properties).filter((name) => rows.some((row) => row[name] !== false)); // What is true of none is not said.
  const value = (row, name) => (name === "value" && row[name] ? h("code", { class: "value" }, String(row[name])) : shown(row[name], {}));
  return rows.length ? table(names.map((name) => ({ title: title(name), cell: (row) => value(row, name) })), rows, { key: (row) => row[names[0]], label: document.titleOf(list) }) : h("p", { class: "muted" }, words.nothingYet);
}

function records(state, place, list) {
  const { content, document, path } = state;
  const name = familyOf(list);
  if (content.rows[name]) return panel(document.titleOf(list), smallList(state, list, content.rows[name]));
  const rows = content.read?.[name];
  const read = async () => {
    content.read = { ...content.read, [name]: rows ? undefined : await api.all(`${path}/${name}`) };
    place.update();
  };
  return panel(title(name), rows && (rows.length ? rows.map(record) : h("p", { class: "muted" }, words.none)),
    h("div", { class: "actions" }, button(rows ? words.hide : document.operation(list.id).summary.replace(/ \(.*\)$/, ""), read, { key: name })));
}

function record(row) {
  const isText = (value) => typeof value === "string" && value.includes("\n");
  return h("div", { class: "record" },
    facts(Object.entries(row).filter(([, value]) => !isText(value)).map(([field, value]) => [title(field), /_at$/.test(field) ? ago(value) : shown(value, {})])),
    Object.values(row).filter(isText).map((value) => codeBlock(value.trim())));
}

const takesPushes = (service) => service.git_repository?.url === "windlass://push";

// The two commands that deploy an application whose repository is here.
function pushing(service) {
  const branch = service.git_repository.branch || "main";
  return panel(text.push, code(`git remote add windlass ${service.push_url}`), code(`git push windlass ${branch}`), h("p", { class: "muted" }, prose(text.pushHow)));
}

function source(service) {
  const parts = [service, service.source?.docker, service.source?.image, service.terraform_files_source].filter(Boolean);
  const repository = parts.find((part) => part.git_repository)?.git_repository;
  const image = parts.find((part) => part.image_name);
  if (takesPushes(service)) return [text.pushed, inside(repository)];
  if (repository?.url) return [outside(repository.url, repository.url), inside(repository)];
  if (image) return h("code", {}, `${image.image_name}:${image.tag || ""}`);
  if (service.type) return `${words.readable(service.type)} ${service.version || ""}`;
  return service.source === "UPLOAD" ? text.uploaded : "";
}

// The branch and the folder, if the service names them: without a branch, the default one is meant.
function inside({ branch, root_path: folder }) {
  const parts = [branch, folder !== "/" && folder].filter(Boolean);
  return parts.length ? ` (${parts.join(", ")})` : "";
}

export function deploymentColumns({ path, service, deployments }) {
  const of = ({ repeats }) => deployments.find(({ id }) => id === repeats);
  const action = (deployment) => [words.doneBy(deployment, service.service_type), deployment.purpose && of(deployment) && ` (v${of(deployment).number})`];
  return [
    { title: words.columns.state, cell: (deployment) => badge(deployment.status) },
    { title: words.columns.number, kind: "whole", cell: (deployment) => deploymentLink(path, deployment, words.deploymentName(deployment)) },
    { title: words.columns.action, kind: "whole", cell: action },
    { title: words.columns.version, wide: true, cell: (deployment) => (deployment.command ? h("code", {}, deployment.command.join(" ")) : commitLine(deployment)) },
    { title: words.columns.author, cell: (deployment) => deployment.commit?.author_name || deployment.triggered_by },
    { title: words.columns.took, kind: "number", cell: (deployment) => (deployment.started_at && deployment.finished_at ? duration(new Date(deployment.finished_at) - new Date(deployment.started_at)) : "") },
    { title: words.columns.when, cell: (deployment) => ago(deployment.created_at) },
  ];
}
