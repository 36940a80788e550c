// A new service on one page: a repository, what was found there with its reasons, then create and deploy. Or a database.

import { api } from "../api.js";
import { fill, h, own, prose } from "../dom.js";
import { loadDocument } from "../document.js";
import { hold } from "../edits.js";
import { familyOf } from "../families.js";
import { fieldError, showAtField } from "../field_errors.js";
import { schemaForm } from "../forms.js";
import { button, showError, empty, errorText, field, head, onEnter } from "../parts.js";
import { refusalOf } from "../rights.js";
import { finish } from "../services.js";
import { words } from "../words.js";

const text = words.newService;
const SETTINGS = [["install", "install_command"], ["build", "build_command"], ["start", "start_command"], ["release", "release_command"], ["static_folder", "static_folder"], ["language_version", "language_version"]];

export async function load({ org, query }) {
  const base = `/organization/${org.id}`;
  const [projects, document, tokens] = await Promise.all([api.all(`${base}/project`), loadDocument(), api.seen(`${base}/gitToken`, api.all)]);
  const lists = await Promise.all(projects.map((project) => api.all(`/project/${project.id}/environment`)));
  const environments = projects.flatMap((project, index) => lists[index].map((environment) => ({ ...environment, project })));
  const kinds = document.listsBelow("/environment/x").filter((list) => document.isDeployable(list));
  // What an address names is taken only where it is offered.
  const kind = kinds.map(familyOf).find((name) => name === query.get("kind")) || "application";
  const { id: environment = "" } = environments.find(({ id }) => id === query.get("environment")) || environments[0] || {};
  return { base, projects, environments, document, tokens: tokens || [], kinds, kind, environment, title: text.title, url: query.get("url") || "", suggested: query.get("name") || undefined, values: {}, root: "/", branch: "", settings: {}, variables: "", forms: {} };
}

export const watch = (state, { query }) => void hold({ node: document.getElementById("app"), changes: () => (isFilledIn(state, query.get("url") || "") ? state : {}) });

const isFilledIn = ({ kind, url, form, module }, given) => (kind === "application" ? url !== given : Boolean(module) || [...(form?.node.querySelectorAll("input, textarea") || [])].some(({ touched }) => touched));

// What is filled in for one kind stays while another one is looked at.
function choose(state, place, kind) {
  const { form, module, values } = state;
  state.forms[state.kind] = { form, module, values };
  Object.assign(state, { form: null, module: null, values: {}, ...state.forms[kind], kind });
  place.update();
}

export function render(state, place) {
  const refusal = refusalOf(["POST", `/environment/x/${state.kind}`]);
  return [
    head(text.title, { about: state.kind === "application" ? text.about : "" }),
    refusal && h("p", { class: "message trouble", role: "status" }, refusal),
    h("div", { class: "switch-row", role: "group", "aria-label": text.what }, state.kinds.map((list) => {
      const kind = familyOf(list);
      return h("button", { type: "button", class: "button", "aria-pressed": String(state.kind === kind), onclick: () => choose(state, place, kind) }, text.kinds[kind] || words.readable(kind));
    })),
    where(state, place),
    state.kind === "application" ? repository(state, place) : other(state, place),
  ];
}

function where(state, place) {
  if (!state.environments.length && state.kind === "application") return field(words.environment, h("input", { value: `${state.projects[0]?.name || text.firstProject} / ${text.firstEnvironment}`, readonly: true, id: "where" }), text.madeWithIt);
  if (!state.environments.length) return empty(text.noEnvironment, button(text.makeEnvironment, () => makeEnvironment(state, place), { main: true, needs: ["POST", `${state.base}/project`] }));
  return h("div", { key: "where" }, field(words.environment,
    h("select", { id: "where", onchange: (event) => (state.environment = event.target.value) }, state.environments.map((environment) => h("option", { value: environment.id, selected: environment.id === state.environment }, `${environment.project.name} / ${environment.name}`)))));
}

async function makeEnvironment(state, place) {
  const project = state.projects[0] || (await api.post(`${state.base}/project`, { name: text.firstProject }));
  state.projects = [project];
  const environment = await api.post(`/project/${project.id}/environment`, { name: text.firstEnvironment, mode: "PRODUCTION" });
  Object.assign(state, { environments: [{ ...environment, project }], environment: environment.id });
  place.update();
}

// An application from a repository

function repository(state, place) {
  const set = (name) => (event) => (state[name] = event.target.value);
  const look = () => detect(state, place);
  return h("div", { key: "repository" },
    h("div", { class: "panel", onkeydown: onEnter(() => look().catch(showError)) },
      field(text.url, h("input", { id: "url", value: state.url, placeholder: "https://github.com/acme/shop.git", oninput: set("url"), autofocus: true, required: true, spellcheck: "false", autocomplete: "off" }), text.urlHelp, { name: "git_repository.url" }),
      h("div", { class: "line" },
        field(text.branch, h("input", { id: "branch", value: state.branch, placeholder: state.branches?.[0] || text.defaultBranch, oninput: set("branch"), list: "branches", autocomplete: "off" }), "", { name: "git_repository.branch" }),
        h("datalist", { id: "branches" }, (state.branches || []).map((name) => h("option", { value: name }))),
        field(text.root, h("input", { id: "root", value: state.root, oninput: set("root"), autocomplete: "off" }), "", { name: "git_repository.root_path" }),
        state.tokens.length > 0 && field(text.gitToken, h("select", { id: "token", onchange: set("token") }, h("option", { value: "" }, words.none), state.tokens.map((token) => h("option", { value: token.id, selected: token.id === state.token }, token.name))), "", { name: "git_repository.git_token_id" })),
      button(state.found ? text.lookAgain : text.look, look, { main: !state.found, needs: ["POST", `${state.base}/detect`] })),
    h("div", { id: "detected" }, state.trouble && h("div", { class: "panel failure", role: "alert" }, h("p", { class: "first" }, prose(state.trouble)))),
    state.found && detected(state, place));
}

function source(state) {
  const found = { url: state.url.trim(), root_path: state.root || "/" };
  if (state.branch) found.branch = state.branch;
  if (state.token) found.git_token_id = state.token;
  return found;
}

async function detect(state, place) {
  state.trouble = "";
  if (!state.url.trim()) throw fieldError("git_repository.url", text.urlMissing);
  try {
    const repository = { git_repository: source(state) };
    const listing = api.post(`${state.base}/branches`, { git_repository: { ...repository.git_repository, branch: undefined } }).then(({ results }) => results.map(({ name }) => name), () => []);
    state.found = await api.post(`${state.base}/detect`, repository);
    state.branches = await listing;
    state.settings = {};
    state.name ||= nameOf(state.url, state.root);
    state.port = undefined;
  } catch (error) {
    state.found = null;
    place.update();
    if (showAtField(error)) return;
    state.trouble = errorText(error);
  }
  place.update();
}

function nameOf(url, root) {
  const last = (root && root !== "/" ? root : url).replace(/\.git$/, "").replace(/\/+$/, "").split(/[/:]/).pop();
  return last.toLowerCase().replace(/[^a-z0-9-]+/g, "-").replace(/^-+|-+$/g, "") || "app";
}

function detected(state, place) {
  const { found } = state;
  const why = (name) => found.reasons[name] || "";
  const what = [found.framework, found.language && `${found.language} ${found.language_version}`.trim(), found.package_manager].filter(Boolean).join(", ");
  const setting = ([name, key]) => field(text.settings[name], h("input", { id: key, value: state.settings[key] ?? found[name], placeholder: text.noCommand, class: "code", spellcheck: "false", autocomplete: "off", oninput: (event) => (state.settings[key] = event.target.value) }), why(name), { name: key });
  // Settings that were not detected are folded, except the start command, which an application needs.
  const isKnown = ([name]) => Boolean(found[name]) || (name === "start" && !found.static_folder);
  return h("section", { class: "panel", key: "found" },
    h("h2", {}, what || found.dockerfile ? text.found(what || found.dockerfile) : found.candidates.length ? text.foundBelow : text.foundNothing),
    why("framework") || why("language") ? h("p", { class: "muted" }, prose(why("framework") || why("language"))) : null,
    found.problems.length > 0 && h("ul", { class: "problems" }, found.problems.map((problem) => h("li", {}, prose(problem)))),
    found.remarks.length > 0 && h("ul", { class: "problems" }, found.remarks.map((remark) => h("li", {}, prose(remark)))),
    why("dockerfile") ? h("p", { class: "muted" }, prose(why("dockerfile"))) : null,
    found.candidates.length > 0 && h("div", {}, h("p", {}, text.candidates), h("div", { class: "choices" }, found.candidates.map((candidate) => button(`${candidate.root_path} (${candidate.framework || candidate.language})`, () => lookIn(state, place, candidate), { small: true })))),
    h("div", { class: "fields" },
      field(words.columns.name, h("input", { id: "name", value: state.name, oninput: (event) => (state.name = event.target.value), autocomplete: "off" }), "", { name: "name" }),
      SETTINGS.filter(isKnown).map(setting),
      field(text.settings.port, h("input", { id: "port", type: "number", min: 1, max: 65535, value: state.port ?? found.port ?? "", placeholder: text.noPort, oninput: (event) => (state.port = event.target.value) }), why("port"), { name: "ports.0.internal_port" }),
      found.processes.length > 1 && field(text.settings.process, h("select", { id: "process", onchange: (event) => (state.settings.process = event.target.value) }, found.processes.map((process) => h("option", { value: process.name, selected: process.name === state.settings.process }, `${process.name}: ${process.command}`))), why("processes")),
      field(text.variables, h("textarea", { id: "variables", rows: 3, class: "code", placeholder: "GREETING=hello", spellcheck: "false", value: state.variables, oninput: (event) => (state.variables = event.target.value) }), text.variablesHelp, { name: "variables" }),
      h("details", {}, h("summary", {}, text.further), SETTINGS.filter((pair) => !isKnown(pair)).map(setting))),
    h("div", { class: "actions" }, button(text.createOnly, () => create(state, place, false), { needs: ["POST", "/environment/x/application"] }), button(text.create, () => create(state, place, true), { main: true, needs: [["POST", "/environment/x/application"], ["POST", "/application/x/deploy"]] })));
}

function lookIn(state, place, candidate) {
  state.root = candidate.root_path;
  state.name = "";
  return detect(state, place);
}

async function create(state, place, thenDeploy) {
  const { parseDotenv } = await import("../dotenv.js");
  const variables = parseDotenv(state.variables, "variables");
  const { found } = state;
  const names = Object.fromEntries(SETTINGS.map(([name, setting]) => [setting, found[name]]));
  const changed = Object.fromEntries(Object.entries(state.settings).filter(([setting, value]) => value && value !== (names[setting] || "")));
  const body = { name: state.name, git_repository: source(state), ...changed };
  if (state.port === "") body.ports = [];
  else if (state.port && Number(state.port) !== found.port) body.ports = [{ internal_port: Number(state.port), protocol: "HTTP", publicly_accessible: true, external_port: 443 }];
  if (!state.environments.length) await makeEnvironment(state, place);
  const { id } = await api.post(`/environment/${state.environment}/application`, body);
  return finish(place, `/application/${id}`, { variables, thenDeploy });
}

// A service of another kind: the form is that of the API.

function other(state, place) {
  if (!state.environments.length) return null;
  const path = `/environment/${state.environment}/${state.kind}`;
  const operation = state.document.at("POST", path);
  const schema = state.document.body(operation);
  const asksInputs = schema.properties.terraform_variables_source;
  const first = [...(schema.required || []), ...(asksInputs ? ["terraform_variables_source"] : []), "description"].filter((name, index, all) => all.indexOf(name) === index);
  const rest = Object.keys(schema.properties).filter((name) => !first.includes(name));
  if (!state.form) {
    const choices = state.kind === "database" ? { version: state.versions?.map((version) => [version, version]) } : {};
    state.form = { first: schemaForm(state.document, schema, { only: first, choices, values: { name: state.suggested, ...state.values } }), rest: schemaForm(state.document, schema, { only: rest, values: state.values }) };
    state.form.node = h("div", {}, state.form.first.node, h("details", {}, h("summary", {}, text.further), state.form.rest.node));
    if (state.kind === "database") offerVersions(state);
  }
  return h("section", { class: "panel", key: `other-${state.kind}` },
    aboutKind(state.kind, operation),
    own(state.form.node),
    state.module?.about(),
    h("div", { class: "actions" }, asksInputs && button(words.module.look, () => lookAtModule(state, place), { needs: ["POST", `${state.base}/parseTerraformVariablesFromGitRepo`] }), button(text.createOnly, () => createOther(state, place, path, false), { needs: ["POST", path] }), button(text.create, () => createOther(state, place, path, true), { main: true, needs: [["POST", path], ["POST", `/${state.kind}/x/deploy`]] })));
}

// The description of a kind without a sentence here is that of the API.
function aboutKind(kind, { description = "" }) {
  const about = text.abouts[kind] || prose(description);
  return about && h("p", { class: "muted" }, about);
}

// The versions that the engine of the environment can run.
async function offerVersions(state) {
  const { results } = await api.get(`/environment/${state.environment}/databaseConfiguration`);
  const form = state.form.first.node;
  const [type, version, mode] = ["type", "version", "mode"].map((name) => form.querySelector(`[id^=field-${name}-]`));
  const list = h("datalist", { id: "versions" });
  version.after(list);
  version.setAttribute("list", "versions");
  const offer = () => {
    const names = (results.find((other) => other.database_type === type.value)?.version || []).filter((other) => other.supported_mode === "CONTAINER").map((other) => other.name);
    fill(list, [...new Set(names)].map((name) => h("option", { value: name })));
    version.value = names[0] || "";
  };
  if (!type.value) type.value = "POSTGRESQL";
  if (!mode.value) mode.value = "CONTAINER";
  type.addEventListener("change", offer);
  offer();
}

// Fills the form in with the variables that the module needs.
async function lookAtModule(state, place) {
  const { about, readInputs, rowsOf } = await import("./module_inputs.js");
  const filled = { ...state.form.rest.read(), ...state.form.first.read() };
  const found = await readInputs(state.base, filled.terraform_files_source?.git_repository || {});
  const source = filled.terraform_variables_source || {};
  const known = source.tf_vars || [];
  const missing = rowsOf(found).filter(({ key }) => !known.some((row) => row.key === key));
  state.values = { ...filled, terraform_variables_source: { ...source, tf_vars: [...known, ...missing] } };
  Object.assign(state, { form: null, module: { about: () => about(found) } });
  place.update();
}

async function createOther(state, place, path, thenDeploy) {
  const rest = state.module ? state.form.rest.read() : state.form.rest.changes(); // What was filled in before the look is no change of the form made then.
  const { id } = await api.post(path, { ...rest, ...state.form.first.read() });
  return finish(place, `/${state.kind}/${id}`, { thenDeploy });
}
