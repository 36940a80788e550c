// The form of a git token: the git host, how a token is made there, and a repository on which it is tried before it is kept.

import { api } from "../api.js";
import { h, prose } from "../dom.js";
import { fieldError } from "../field_errors.js";
import { logo } from "../icons.js";
import { field, outside } from "../parts.js";
import { words } from "../words.js";
import { providers } from "./provider.js";

const text = words.gitTokenForm;
const KINDS = [["GITHUB", "GitHub"], ["GITLAB", "GitLab"], ["BITBUCKET", "Bitbucket"]];
const PAGES = { GITHUB: "https://github.com/settings/personal-access-tokens/new", GITLAB: "https://gitlab.com/-/user_settings/personal_access_tokens" };
let tried = "";

export async function form() {
  const touch = (event) => (event.target.touched = true);
  const name = h("input", { autocomplete: "off", oninput: touch });
  const token = h("input", { type: "password", autocomplete: "new-password", oninput: touch });
  const server = h("input", { placeholder: "https://git.example.com/api/v4", autocomplete: "off", oninput: touch });
  const repository = h("input", { placeholder: "https://github.com/acme/private.git", autocomplete: "off", spellcheck: "false", oninput: touch });
  const node = h("div", {},
    field(words.columns.name, name, "", { name: "name" }), field(text.token, token, text.tokenHelp, { name: "token" }), field(text.tryOn, repository, text.tryHelp, { name: "git_repository.url" }),
    h("details", {}, h("summary", {}, text.ownServer), field(text.api, server, "", { name: "git_api_url" })));
  const read = () => {
    tried = repository.value.trim();
    return { name: name.value.trim() || undefined, token: token.value || undefined, git_api_url: server.value.trim() || undefined };
  };
  const steps = (kind) => text.steps[kind].map((line, index) => (!index && PAGES[kind] ? [outside(PAGES[kind], text.open), " ", prose(line)] : prose(line)));
  return providers(text.kind, KINDS.map(([kind, shown]) => [kind, shown, "", logo(shown, "large")]), "type", steps, () => ({ node, read }));
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
