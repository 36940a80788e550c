// The fields of a repository: its address, branch, folder, and the token of a private one.

import { api } from "../../api.js";
import { fill, h, own } from "../../dom.js";
import { field } from "../../parts.js";
import { words } from "../../words.js";

const text = words.newService;
const MOST_ASKED = 4;

/** The fields, for `content` with `url`, `branch`, `root` and `token`. `prefix`: of the names in errors of the API. */
export function repositoryFields(state, content, prefix = "git_repository") {
  const { tokens } = state;
  const known = (state.known ??= h("datalist", { id: "repositories" }));
  const offer = () => readRepositories(state).then((found) => fill(known, found.map(({ url, name }) => h("option", { value: url }, name))));
  const choose = async (event) => {
    [content.url, event.target.touched] = [event.target.value, true];
    const chosen = (await readRepositories(state)).find(({ url }) => url === event.target.value);
    if (chosen && content.url === chosen.url) choice(event.target, content, chosen.token);
  };
  const set = (name) => (event) => ((content[name] = event.target.value), (event.target.touched = true));
  const branches = content.branches || [];
  const branch = branches.length
    ? h("select", { id: "branch", onchange: set("branch") }, h("option", { value: "", selected: !content.branch }, text.defaultBranch), branches.map((name) => h("option", { value: name, selected: name === content.branch }, name)))
    : h("input", { id: "branch", value: content.branch, placeholder: text.defaultBranch, oninput: set("branch"), autocomplete: "off" });
  return [
    field(text.url, h("input", { id: "url", value: content.url, placeholder: "https://github.com/acme/shop.git", oninput: choose, onfocus: offer, list: known.id, autofocus: true, required: true, spellcheck: "false", autocomplete: "off" }), tokens.length ? text.urlSearch : text.urlHelp, { name: `${prefix}.url` }), own(known),
    h("div", { class: "line" },
      h("div", { key: branches.length ? "branches" : "branch" }, field(text.branch, branch, "", { name: `${prefix}.branch` })),
      field(text.root, h("input", { id: "root", value: content.root, oninput: set("root"), autocomplete: "off" }), "", { name: `${prefix}.root_path` }),
      tokens.length > 0 && field(text.gitToken, h("select", { id: "token", onchange: set("token") }, h("option", { value: "" }, words.none), tokens.map((token) => h("option", { value: token.id, selected: token.id === content.token }, token.name))), "", { name: `${prefix}.git_token_id` })),
  ];
}

/** The repositories that the git tokens see, each with its token; read once for a page. A git server that does not answer offers none. */
function readRepositories(state) {
  const ask = (token) => api.get(`${state.base}/account/${token.type.toLowerCase()}/repository`, { gitTokenId: token.id })
    .then(({ results }) => results.map((one) => ({ ...one, token: token.id })), () => []);
  state.repositories ??= Promise.all(state.tokens.slice(0, MOST_ASKED).map(ask)).then((lists) => lists.flat());
  return state.repositories;
}

/** Chooses the git token of a chosen repository. */
function choice(input, content, token) {
  content.token = token;
  const select = input.closest("form, .panel")?.querySelector("#token");
  if (select) select.value = token;
}

/** The repository as the API takes it. */
export function repositoryOf({ url, root, branch, token }) {
  const found = { url: url.trim(), root_path: root || "/" };
  if (branch) found.branch = branch;
  if (token) found.git_token_id = token;
  return found;
}

/** The branches of a repository; none if they cannot be read, because one can be typed. */
export const readBranches = (base, repository) =>
  api.post(`${base}/branches`, { git_repository: { ...repository, branch: undefined } }).then(({ results }) => results.map(({ name }) => name), () => []);

/** A name for a service of a repository: that of its folder. */
export function nameOf(url, root) {
  const last = (root && root !== "/" ? root : url).replace(/\.git$/, "").replace(/\/+$/, "").split(/[/:]/).pop();
  return last.toLowerCase().replace(/[^a-z0-9-]+/g, "-").replace(/^-+|-+$/g, "") || "app";
}
