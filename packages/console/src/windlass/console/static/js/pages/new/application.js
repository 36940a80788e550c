// A new application: a repository, what was found in it with the reasons, its size, and a database along with it.

import { api } from "../../api.js";
import { h, own, prose } from "../../dom.js";
import { fieldError, showAtField } from "../../field_errors.js";
import { logo } from "../../icons.js";
import { button, errorText, field, onEnter, showError, steps } from "../../parts.js";
import { refusalOf } from "../../rights.js";
import { finish } from "../../services.js";
import { cards } from "../../settings/part.js";
import * as size from "../../settings/size.js";
import { words } from "../../words.js";
import { addressOf, databaseBody, kindCards, prefixOf, readVersions } from "./databases.js";
import { nameOf, readBranches, repositoryFields, repositoryOf } from "./repository.js";

const text = words.newService;
const SETTINGS = [["install", "install_command"], ["build", "build_command"], ["start", "start_command"], ["release", "release_command"], ["static_folder", "static_folder"], ["language_version", "language_version"]];
const CREATES = ["POST", "/environment/x/application"];
const DEPLOYS = ["POST", "/application/x/deploy"];

export async function begin(state, query) {
  const url = query.get("url") || "";
  const content = { given: url, url, root: "/", branch: "", token: "", settings: {}, variables: "", database: "", size: size.edit({ service: { cpu: 500, memory: 512 } }), automatic: !refusalOf(DEPLOYS) };
  content.databaseNode = databaseCards(state, content);
  return content;
}

const databaseCards = (state, content) => cards(text.database, [["", text.noDatabase, ""], ...kindCards(state.document)], content.database, (type) => (content.database = type));

export const isFilledIn = ({ url, given }) => url !== given;

export function render(state, content, place) {
  const look = () => detect(state, content, place);
  return h("div", { key: "repository" },
    h("div", { class: "panel", onkeydown: onEnter(() => look().catch(showError)) },
      repositoryFields(state, content),
      button(content.found ? text.lookAgain : text.look, look, { main: !content.found, icon: "search", needs: ["POST", `${state.base}/detect`] })),
    h("div", { id: "detected" }, content.trouble && h("div", { class: "panel failure", role: "alert" }, h("p", { class: "first" }, prose(content.trouble)))),
    content.found ? detected(state, content, place) : steps(text.steps));
}

async function detect(state, content, place) {
  content.trouble = "";
  if (!content.url.trim()) throw fieldError("git_repository.url", text.urlMissing);
  try {
    const repository = repositoryOf(content);
    const listing = readBranches(state.base, repository);
    content.found = await api.post(`${state.base}/detect`, { git_repository: repository });
    content.isMoved = content.root === content.movedTo;
    if (content.found.only_folder) {
      content.root = content.movedTo = content.found.only_folder;
      return await detect(state, content, place);
    }
    content.branches = await listing;
    content.settings = {};
    content.database = content.found.databases[0]?.type || "";
    content.databaseNode = databaseCards(state, content);
    content.name ||= nameOf(content.url, content.root);
    content.port = undefined;
  } catch (error) {
    content.found = null;
    place.update();
    if (showAtField(error)) return;
    content.trouble = errorText(error);
  }
  place.update();
}

function detected(state, content, place) {
  const { found } = content;
  const why = (name) => found.reasons[name] || "";
  const set = (name) => (event) => (content[name] = event.target.value);
  const what = [found.framework, found.language && `${found.language} ${found.language_version}`.trim(), found.package_manager].filter(Boolean).join(", ");
  const setting = ([name, key]) => field(text.settings[name], h("input", { id: key, value: content.settings[key] ?? found[name], placeholder: text.noCommand, class: "code", spellcheck: "false", autocomplete: "off", oninput: (event) => (content.settings[key] = event.target.value) }), why(name), { name: key });
  // Settings that were not detected are folded, except the start command, which an application needs.
  const isKnown = ([name]) => Boolean(found[name]) || (name === "start" && !found.static_folder);
  const refusal = refusalOf(DEPLOYS);
  return h("div", { key: "found" },
    h("section", { class: "panel" },
      h("h2", { class: "product" }, logo(found.framework, "large") || logo(found.language, "large"), h("span", {}, what ? text.found(what) : text.foundNothing)),
      why("framework") || why("language") ? h("p", { class: "muted" }, prose(why("framework") || why("language"))) : null,
      content.isMoved && h("p", { class: "muted" }, text.onlyFolder(content.root)),
      found.problems.length > 0 && h("ul", { class: "problems" }, found.problems.map((problem) => h("li", {}, prose(problem)))),
      found.candidates.length > 0 && h("div", {}, h("p", {}, text.candidates), h("div", { class: "choices" }, found.candidates.map((candidate) => button(`${candidate.root_path} (${candidate.framework || candidate.language})`, () => lookIn(state, content, place, candidate), { small: true })))),
      h("div", { class: "fields" },
        field(words.columns.name, h("input", { id: "name", value: content.name, oninput: set("name"), autocomplete: "off" }), "", { name: "name" }),
        SETTINGS.filter(isKnown).map(setting),
        field(text.settings.port, h("input", { id: "port", type: "number", min: 1, max: 65535, value: content.port ?? (found.port || ""), placeholder: text.noPort, oninput: set("port") }), why("port"), { name: "ports.0.internal_port" }),
        found.processes.length > 1 && field(text.settings.process, h("select", { id: "process", onchange: (event) => (content.settings.process = event.target.value) }, found.processes.map((process) => h("option", { value: process.name, selected: process.name === content.settings.process }, `${process.name}: ${process.command}`))), why("processes")),
        field(words.settings.source.automatic, h("input", { id: "automatic", type: "checkbox", role: "switch", checked: content.automatic, disabled: Boolean(refusal), onchange: (event) => (content.automatic = event.target.checked) }), refusal || text.automaticHelp, { isSwitch: true, name: "auto_deploy" }),
        h("details", {}, h("summary", {}, text.further), SETTINGS.filter((pair) => !isKnown(pair)).map(setting)))),
    h("section", { class: "panel" }, h("h2", {}, words.settings.size.title), own(content.size.node)),
    h("section", { class: "panel" }, h("h2", {}, text.database), h("p", { class: "help" }, why("databases") ? prose(why("databases")) : text.databaseHelp), own(content.databaseNode)),
    h("section", { class: "panel" },
      field(text.variables, h("textarea", { id: "variables", rows: 3, class: "code", placeholder: "GREETING=hello", spellcheck: "false", value: content.variables, oninput: set("variables") }), text.variablesHelp, { name: "variables" })),
    h("div", { class: "actions" }, button(text.createOnly, () => create(state, content, place, false), { needs: CREATES }), button(text.create, () => create(state, content, place, true), { main: true, icon: "rocket", needs: [CREATES, DEPLOYS] })));
}

function lookIn(state, content, place, candidate) {
  Object.assign(content, { root: candidate.root_path, name: "" });
  return detect(state, content, place);
}

async function create(state, content, place, thenDeploy) {
  const { parseDotenv } = await import("../../dotenv.js");
  const variables = parseDotenv(content.variables, "variables");
  const { found, name } = content;
  const names = Object.fromEntries(SETTINGS.map(([name, setting]) => [setting, found[name]]));
  const changed = Object.fromEntries(Object.entries(content.settings).filter(([setting, value]) => value && value !== (names[setting] || "")));
  const look = (found.framework || found.language).toLowerCase().replace(/[^a-z0-9]/g, "");
  const body = { name, git_repository: repositoryOf(content), auto_deploy: content.automatic, ...content.size.read(), ...changed };
  if (look) body.icon_uri = `app://windlass/${look}`;
  if (content.port === "") body.ports = [];
  else if (content.port && Number(content.port) !== found.port) body.ports = [{ internal_port: Number(content.port), protocol: "HTTP", publicly_accessible: true, external_port: 443 }];
  if (!state.environments.length) await state.makeEnvironment();
  const { id } = await api.post(`/environment/${state.environment}/application`, body);
  const need = found.databases.find(({ type }) => type === content.database);
  const access = content.database ? await makeDatabase(state, `${name}-db`, content.database, need, thenDeploy) : [];
  return finish(place, `/application/${id}`, { variables: [...access.filter(([key]) => !variables.some(([own]) => own === key)), ...variables], thenDeploy });
}

// The application begins after its database: a deployment waits for what its variables need.
async function makeDatabase({ environment }, name, type, need, thenDeploy) {
  const versions = await readVersions(environment);
  const { id } = await api.post(`/environment/${environment}/database`, databaseBody(name, type, versions[type][0]));
  if (thenDeploy) await api.post(`/database/${id}/deploy`);
  return need ? need.variables.map(({ name: key, value }) => [key, value.replaceAll(`{{${prefixOf(need.name)}`, `{{${prefixOf(name)}`)]) : [addressOf(name, type)];
}
