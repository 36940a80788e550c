// The overview: what needs attention, then projects with a dot for each service, then what was deployed last.

import { api } from "../api.js";
import { h, prose } from "../dom.js";
import { loadDocument } from "../document.js";
import { ago } from "../format.js";
import { serviceIcon } from "../icons.js";
import { refreshOnEvents } from "../live.js";
import { empty, head, link, linkButton, panel, stale, steps, table } from "../parts.js";
import { isLimited } from "../rights.js";
import { pathOf } from "../services.js";
import { byUrgency, dot, hasManyErrors, serviceBadge, serviceKind } from "../states.js";
import { words } from "../words.js";

const DOTS = 80;
const NEW = ["POST", "/environment/x/application"];
const text = words.overview;

export async function load(place) {
  const base = `/organization/${place.org.id}`;
  const state = { title: text.title, isLive: true, path: `${base}/services` };
  state.read = async () => {
    const [services, projects] = await Promise.all([api.all(`${base}/services`), api.all(`${base}/project`)]);
    Object.assign(state, { services, projects });
  };
  await Promise.all([state.read(), isLimited() && loadDocument()]); // Rights are compared with the document, which others do not wait for.
  // No event tells that requests fail. The more services, the more a reading costs.
  state.refreshing = { refresh: state.read, isQuiet: true, every: Math.max(60000, state.services.length * 60) };
  return state;
}

export const watch = (state, place, draw) => refreshOnEvents(`/organization/${place.org.id}/events/stream`, state, place, draw, { fromNow: true });

export function render(state, place) {
  const { services, projects } = state;
  const troubled = services.filter((service) => ["bad", "warn"].includes(serviceKind(service)));
  const busy = services.filter((service) => ["busy", "wait"].includes(serviceKind(service)));
  // A message of what is under way says why it cannot go on.
  const needy = [...troubled, ...busy.filter((service) => service.message)];
  const changing = busy.filter((service) => !service.message);
  return [
    head(text.title, { about: summary(state, needy, busy), actions: [linkButton(place, "/new", words.places.new, { main: true, needs: NEW, icon: "plus" })] }),
    stale(state),
    brief(text.attention, needy),
    brief(text.changing, changing),
    !services.length ? empty(text.empty, linkButton(place, "/new", words.places.new, { main: true, needs: NEW }), "windlass init && windlass up", text.fromFolder) : null,
    !services.length ? steps(words.newService.steps) : null,
    h("div", { class: "cards" }, projects.map((project) => card(project, services.filter((service) => service.project_id === project.id)))),
    recent(services),
  ];
}

function summary({ services, isLive }, needy, busy) {
  if (!services.length) return text.nothingRuns;
  const running = services.filter((service) => serviceKind(service) === "ok").length;
  return [text.running(running, services.length), needy.length ? text.troubled(needy.length) : isLive && text.allWell, busy.length ? text.busy(busy.length) : ""].filter(Boolean).join(" · ");
}

function brief(heading, rows) {
  if (!rows.length) return null;
  return panel(heading, h("ul", { class: "attention" }, rows.slice(0, 12).map((service) =>
    h("li", { key: service.id },
      serviceBadge(service),
      h("div", {}, serviceIcon(service), link(pathOf(service), h("strong", {}, service.name)), h("span", { class: "muted" }, ` ${service.project_name} / ${service.environment_name}`),
        service.message && h("p", { class: "message" }, prose(service.message.split("\n")[0])),
        service.lacks_port && h("p", { class: "message" }, words.serviceOverview.noPort),
        hasManyErrors(service) && h("p", { class: "message" }, text.manyErrors(service.error_share)))))),
    rows.length > 12 && h("p", { class: "muted" }, text.more(rows.length - 12)));
}

function card(project, services) {
  const environments = new Map();
  for (const service of services) {
    const found = environments.get(service.environment_id) || { name: service.environment_name, services: [] };
    found.services.push(service);
    environments.set(service.environment_id, found);
  }
  return h("article", { class: "card", key: project.id },
    h("h2", {}, link(`/project/${project.id}`, project.name)),
    project.description && h("p", { class: "muted" }, prose(project.description)),
    h("ul", {}, [...environments].map(([id, { name, services: inside }]) =>
      h("li", { key: id }, link(`/environment/${id}`, name), h("span", { class: "dots" }, dots(inside)), h("span", { class: "muted" }, text.services(inside.length))))),
    !environments.size && h("p", { class: "muted" }, project.associated_environments_count ? text.noServices : text.noEnvironments));
}

function dots(services) {
  const order = byUrgency(services);
  return [
    order.slice(0, DOTS).map((service) => h("a", { href: `/console${pathOf(service)}`, key: service.id, class: "dot-link" }, dot(serviceKind(service), `${service.name}: ${words.readable(service.state)}`))),
    order.length > DOTS && h("span", { class: "muted" }, `+${order.length - DOTS}`),
  ];
}

function recent(services) {
  const rows = services.filter((service) => service.last_deployment_date).sort((one, other) => other.last_deployment_date.localeCompare(one.last_deployment_date)).slice(0, 10);
  if (!rows.length) return null;
  return panel(text.recent, table([
    { title: words.columns.state, cell: (service) => serviceBadge(service) },
    { title: words.columns.name, cell: (service) => [serviceIcon(service), link(pathOf(service), service.name)] },
    { title: words.columns.where, cell: (service) => h("span", { class: "muted" }, `${service.project_name} / ${service.environment_name}`) },
    { title: words.columns.version, cell: (service) => h("code", {}, service.version) },
    { title: words.columns.deployed, cell: (service) => ago(service.last_deployment_date) },
  ], rows, { to: pathOf, label: text.recent }));
}
