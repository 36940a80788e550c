// The form of a git token: the git host, how a token is made there, and a repository on which it is tried before it is kept.

import { api } from "../api.js";
import { h, prose } from "../dom.js";
import { fieldError } from "../field_errors.js";
import { title } from "../format.js";
import { logo } from "../icons.js";
import { field, outside } from "../parts.js";
import { words } from "../words.js";
import { organizationForms } from "../words_of_forms.js";
import { providers } from "./provider.js";

const text = organizationForms.gitTokenForm;
const GITEA = "GITEA"; // Its API is like that of GitHub, by which name the server knows it.
const APP = "GITHUB_APP"; // A git token of type GITHUB, with the private key of the app.
const KINDS = [["GITHUB", "GitHub"], [APP, "GitHub App"], ["GITLAB", "GitLab"], [GITEA, "Gitea, Forgejo"], ["BITBUCKET", "Bitbucket"]];
const PAGES = { GITHUB: "https://github.com/settings/personal-access-tokens/new", [APP]: "https://github.com/settings/apps/new", GITLAB: "https://gitlab.com/-/user_settings/personal_access_tokens" };
let tried = "";

const touch = (event) => (event.target.touched = true);

// The kind of host stays. An empty secret keeps the one that is stored.
function editForm(known) {
  const input = (name, props = {}) => h("input", { value: known[name] ?? "", autocomplete: "off", spellcheck: "false", oninput: touch, ...props });
  const isApp = Boolean(known.github_app_id);
  const inputs = { name: input("name"), description: input("description"), git_api_url: input("git_api_url"), ...(isApp && { github_app_id: input("github_app_id"), github_installation_id: input("github_installation_id") }) };
  const secret = isApp ? h("textarea", { rows: 3, class: "code", placeholder: text.keptSecret, oninput: touch }) : input("", { type: "password", autocomplete: "new-password", placeholder: text.keptSecret });
  const titles = { name: words.columns.name, description: title("description"), git_api_url: text.api, github_app_id: text.appId, github_installation_id: text.installation };
  const changes = () => ({ ...Object.fromEntries(Object.entries(inputs).map(([name, { value }]) => [name, value.trim()]).filter(([name, value]) => value !== String(known[name] ?? ""))), ...(secret.value && { token: secret.value }) });
  return { changes, node: h("div", {}, Object.entries(inputs).map(([name, control]) => field(titles[name], control, "", { name })), field(isApp ? text.privateKey : text.token, secret, text.tokenHelp, { name: "token" })) };
}

export async function form({ values } = {}) {
  if (values) return editForm(values);
  const name = h("input", { autocomplete: "off", oninput: touch });
  const token = h("input", { type: "password", autocomplete: "new-password", oninput: touch });
  const server = h("input", { placeholder: "https://git.example.com/api/v4", autocomplete: "off", oninput: touch });
  const repository = h("input", { placeholder: "https://github.com/acme/private.git", autocomplete: "off", spellcheck: "false", oninput: touch });
  const workspace = h("input", { placeholder: "acme", autocomplete: "off", spellcheck: "false", oninput: touch });
  const serverField = field(text.api, server, "", { name: "git_api_url" });
  const folded = h("details", {}, h("summary", {}, text.ownServer));
  const workspaceField = field(text.workspace, workspace, text.workspaceHelp, { name: "workspace" });
  const appId = h("input", { placeholder: "1234567", autocomplete: "off", spellcheck: "false", oninput: touch });
  const installation = h("input", { placeholder: "45678901", autocomplete: "off", inputmode: "numeric", oninput: touch });
  const key = h("textarea", { rows: 5, placeholder: "-----BEGIN RSA PRIVATE KEY-----", autocomplete: "off", spellcheck: "false", oninput: touch });
  const tokenField = field(text.token, token, text.tokenHelp, { name: "token" });
  const appFields = [field(text.appId, appId, "", { name: "github_app_id" }), field(text.installation, installation, text.installationHelp, { name: "github_installation_id" }), field(text.privateKey, key, text.tokenHelp, { name: "token" })];
  const secret = h("div", {});
  const asked = h("div", {});
  const node = h("div", {},
    asked, field(words.columns.name, name, "", { name: "name" }), secret, field(text.tryOn, repository, text.tryHelp, { name: "git_repository.url" }), folded);
  // A server of its own is usual for Gitea, and rare for the others.
  const fields = (kind) => {
    const isOwn = kind === GITEA;
    server.placeholder = `https://git.example.com/api/${{ GITHUB: "v3", [APP]: "v3", GITLAB: "v4" }[kind] || "v1"}`;
    asked.replaceChildren(...(isOwn ? [serverField] : kind === "BITBUCKET" ? [workspaceField] : []));
    secret.replaceChildren(...(kind === APP ? appFields : [tokenField]));
    folded.hidden = isOwn || kind === "BITBUCKET";
    if (!isOwn) folded.append(serverField);
    return { node, read: () => read(kind) };
  };
  const read = (kind) => {
    tried = repository.value.trim();
    if (kind === GITEA && !server.value.trim()) throw fieldError("git_api_url", text.serverMissing);
    const app = kind === APP && { type: "GITHUB", github_app_id: appId.value.trim() || undefined, github_installation_id: installation.value.trim() || undefined };
    return { ...(kind === GITEA && { type: "GITHUB" }), ...app, name: name.value.trim() || undefined, token: (app ? key : token).value || undefined, git_api_url: server.value.trim() || undefined, workspace: kind === "BITBUCKET" ? workspace.value.trim() || undefined : undefined };
  };
  const steps = (kind) => text.steps[kind].map((line, index) => (!index && PAGES[kind] ? [outside(PAGES[kind], text.open), " ", prose(line)] : prose(line)));
  return providers(text.kind, KINDS.map(([kind, shown]) => [kind, shown, "", logo(shown.split(/,| App/)[0], "large")]), "type", steps, fields);
}

/** Keeps the token only if it reads the repository that was named. */
export async function create(path, body) {
  const made = await api.post(path, body);
  if (!tried) return made;
  try {
    await api.post(`${path.replace(/\/\w+$/, "")}/branches`, { git_repository: { url: tried, git_token_id: made.id } });
  } catch (error) {
    await api.delete(`${path}/${made.id}`);
    throw fieldError("git_repository.url", text.refused(error.message.replace(/^[\w.]+: /, "")));
  }
  return made;
}

const hostOf = (address) => { try { return new URL(address).host.replace(/^api\./, ""); } catch { return address; } };

export const columns = [
  { title: text.kind, kind: "titled", cell: ({ type }) => [logo(type), " ", KINDS.find(([kind]) => kind === type)?.[1] || type] },
  { title: text.server, kind: "titled", cell: ({ git_api_url: address }) => h("span", { class: "muted" }, hostOf(address)) },
  { title: text.used, kind: "number titled", cell: ({ associated_services_count: count }) => count },
];
