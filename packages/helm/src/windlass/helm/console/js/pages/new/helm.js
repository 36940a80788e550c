// A new Helm service: a chart of a repository or of git, its version, and the values that differ.

import { api } from "../../api.js";
import { fill, h, own } from "../../dom.js";
import { forgetEdits } from "../../edits.js";
import { fieldError } from "../../field_errors.js";
import { button, errorText, field, link } from "../../parts.js";
import { finish } from "../../services.js";
import { words } from "../../words.js";
import { charts as text } from "../../words_of_charts.js";
import { nameOf, repositoryFields, repositoryOf } from "./repository.js";

const SOURCE = "source";

export async function begin(state) {
  const repositories = await api.all(`${state.base}/helmRepository`).catch(() => []);
  return {
    kind: repositories.length ? "stored" : "git", repositories, repository: "", chart: "", version: "", charts: [], versions: [],
    url: "", branch: "", root: "/", token: "", name: state.suggested || "", values: "", timeout: 600, wholeCluster: false, defaults: h("div", { role: "status" }),
  };
}

export const isFilledIn = ({ url, chart, values }) => Boolean(url || chart || values);

export function render(state, content, place) {
  const path = `/environment/${state.environment}/helm`;
  const set = (name) => (event) => (Object.assign(content, { [name]: event.target.value }), (event.target.touched = true));
  const part = (heading, ...nodes) => h("section", { class: "panel" }, h("h2", {}, heading), nodes);
  const choose = (kind) => () => ((content.kind = kind), place.update());
  const run = ["POST", "/helm/x/deploy"];
  return h("div", { key: "helm" },
    part(text.source,
      h("p", { class: "muted" }, text.about),
      h("div", { class: "line", role: "group", "aria-label": text.source }, Object.entries(text.kinds).map(([kind, title]) =>
        h("label", {}, h("input", { type: "radio", name: "chart-source", value: kind, checked: content.kind === kind, onchange: choose(kind) }), " ", title))),
      content.kind === "git" ? h("div", { key: "git" }, h("p", { class: "muted" }, text.gitHelp), repositoryFields(state, content, `${SOURCE}.git_repository`)) : storedFields(state, content, place, set),
      h("div", { class: "line narrow" }, field(words.columns.name, h("input", { id: "name", value: content.name, placeholder: usualName(content), autocomplete: "off", spellcheck: "false", oninput: set("name") }), "", { name: "name" }))),
    part(text.values,
      field(text.values, h("textarea", { id: "values", rows: 12, class: "code", placeholder: "replicaCount: 2", spellcheck: "false", value: content.values, oninput: set("values") }), text.valuesHelp, { name: "values_override.file.raw.values.0.content" }),
      h("div", { class: "actions" }, button(text.defaults, () => showDefaults(state, content), { small: true, icon: "search", key: "defaults", needs: ["POST", `/environment/${state.environment}/helmDefaultValues`] })), own(content.defaults)),
    part(text.options,
      h("div", { class: "line narrow" }, field(text.timeout, h("input", { id: "timeout", type: "number", min: 0, max: 86400, value: content.timeout, oninput: set("timeout") }), text.seconds, { name: "timeout_sec" })),
      field(text.wholeCluster, h("input", { id: "whole-cluster", type: "checkbox", role: "switch", checked: content.wholeCluster, onchange: (event) => (content.wholeCluster = event.target.checked) }), text.wholeClusterHelp, { isSwitch: true, name: "allow_cluster_wide_resources" })),
    h("p", { class: "muted" }, text.createHelp),
    h("div", { class: "actions" },
      button(words.newService.createOnly, () => create(content, place, path), { needs: ["POST", path] }),
      button(text.createAndDeploy, () => create(content, place, path, "deploy"), { needs: [["POST", path], run] }),
      button(text.create, () => create(content, place, path, "plan"), { main: true, icon: "rocket", needs: [["POST", path], run] })));
}

function storedFields(state, content, place, set) {
  const pick = async (event) => (Object.assign(content, { repository: event.target.value, chart: "", version: "" }), await readCharts(state, content), place.update());
  const pickChart = async (event) => ((content.chart = event.target.value.trim()), await readVersions(state, content), place.update());
  const known = h("datalist", { id: "charts" }, content.charts.map(({ chart_name }) => h("option", { value: chart_name })));
  const versions = content.versions.length
    ? h("select", { id: "version", onchange: set("version") }, content.versions.map((version) => h("option", { value: version, selected: version === content.version }, version)))
    : h("input", { id: "version", value: content.version, placeholder: "1.2.3", autocomplete: "off", oninput: set("version") });
  return h("div", { key: "stored" },
    !content.repositories.length && h("p", { class: "muted" }, text.noRepository, " ", link(`${state.base}/helmRepository/new`, text.addRepository)),
    field(text.repository, h("select", { id: "repository", onchange: pick }, h("option", { value: "" }, words.none), content.repositories.map(({ id, name }) => h("option", { value: id, selected: id === content.repository }, name))), text.repositoryHelp, { name: `${SOURCE}.helm_repository.repository` }),
    own(known),
    h("div", { class: "line" },
      field(text.chart, h("input", { id: "chart", value: content.chart, list: "charts", placeholder: "redis", autocomplete: "off", spellcheck: "false", onchange: pickChart }), content.charts.length ? "" : text.chartHelp, { name: `${SOURCE}.helm_repository.chart_name` }),
      h("div", { key: content.versions.length ? "versions" : "version" }, field(text.version, versions, content.versions.length ? text.versionHelp : "", { name: `${SOURCE}.helm_repository.chart_version` }))));
}

const at = (state, content) => `${state.base}/helmRepository/${content.repository}/charts`;

/** Reads the charts of the chosen repository; none if it lists none, because one can be typed. */
async function readCharts(state, content) {
  content.charts = content.repository ? await api.all(at(state, content)).catch(() => []) : [];
  content.versions = [];
}

async function readVersions(state, content) {
  const known = content.charts.find(({ chart_name }) => chart_name === content.chart);
  const found = known || !content.repository || !content.chart ? known : (await api.get(at(state, content), { chartName: content.chart }).then(({ results }) => results[0], () => null));
  content.versions = found?.versions || [];
  content.version = content.versions[0] || "";
}

const usualName = ({ kind, url, root, chart }) => (kind === "git" ? (url ? nameOf(url, root) : "shop") : chart.split("/").pop() || "redis");

function sourceOf(content) {
  if (content.kind === "git") {
    if (!content.url.trim()) throw fieldError(`${SOURCE}.git_repository.url`, text.missing.url);
    return { git_repository: repositoryOf(content) };
  }
  for (const [name, of] of [["repository", "repository"], ["chart", "chart_name"], ["version", "chart_version"]]) {
    if (!content[name].trim()) throw fieldError(`${SOURCE}.helm_repository.${of}`, text.missing[name]);
  }
  return { helm_repository: { repository: content.repository, chart_name: content.chart, chart_version: content.version.trim() } };
}

async function showDefaults({ environment }, content) {
  try {
    const values = await api.post(`/environment/${environment}/helmDefaultValues`, { source: sourceOf(content) });
    fill(content.defaults, h("details", { open: true }, h("summary", {}, text.defaultsOf), h("pre", { class: "lines", tabindex: "0" }, values)));
  } catch (error) {
    if (error.isOfField) throw error;
    fill(content.defaults, h("p", { class: "trouble" }, errorText(error)));
  }
}

// A plan is read on its own page.
async function create(content, place, path, then) {
  const body = { name: content.name.trim() || usualName(content), source: sourceOf(content), timeout_sec: Number(content.timeout), allow_cluster_wide_resources: content.wholeCluster };
  if (content.values.trim()) body.values_override = { file: { raw: { values: [{ name: "values.yaml", content: content.values }] } } };
  const { id } = await api.post(path, body);
  if (then !== "plan") return finish(place, `/helm/${id}`, { thenDeploy: then === "deploy" });
  forgetEdits();
  await place.go(`/helm/${id}/plan`);
  await api.post(`/helm/${id}/deploy?forceEvent=DIFF`, {});
  await place.go(`/helm/${id}/plan`, { replace: true });
}
