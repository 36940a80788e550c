// The fields of a repository: its address, branch, folder, and the token of a private one.

import { api } from "../../api.js";
import { h } from "../../dom.js";
import { field } from "../../parts.js";
import { words } from "../../words.js";

const text = words.newService;

/** The fields, for `content` with `url`, `branch`, `root` and `token`. `prefix`: of the names in errors of the API. */
export function repositoryFields({ tokens }, content, prefix = "git_repository") {
  const set = (name) => (event) => ((content[name] = event.target.value), (event.target.touched = true));
  const branches = content.branches || [];
  const branch = branches.length
    ? h("select", { id: "branch", onchange: set("branch") }, h("option", { value: "", selected: !content.branch }, text.defaultBranch), branches.map((name) => h("option", { value: name, selected: name === content.branch }, name)))
    : h("input", { id: "branch", value: content.branch, placeholder: text.defaultBranch, oninput: set("branch"), autocomplete: "off" });
  return [
    field(text.url, h("input", { id: "url", value: content.url, placeholder: "https://github.com/acme/shop.git", oninput: set("url"), autofocus: true, required: true, spellcheck: "false", autocomplete: "off" }), text.urlHelp, { name: `${prefix}.url` }),
    h("div", { class: "line" },
      h("div", { key: branches.length ? "branches" : "branch" }, field(text.branch, branch, "", { name: `${prefix}.branch` })),
      field(text.root, h("input", { id: "root", value: content.root, oninput: set("root"), autocomplete: "off" }), "", { name: `${prefix}.root_path` }),
      tokens.length > 0 && field(text.gitToken, h("select", { id: "token", onchange: set("token") }, h("option", { value: "" }, words.none), tokens.map((token) => h("option", { value: token.id, selected: token.id === content.token }, token.name))), "", { name: `${prefix}.git_token_id` })),
  ];
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
