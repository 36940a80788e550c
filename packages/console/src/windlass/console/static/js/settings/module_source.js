// Where a Terraform module is, and what a new commit of it starts.

import { h } from "../dom.js";
import { field } from "../parts.js";
import { reference } from "../references.js";
import { words } from "../words.js";
import { modules } from "../words_of_modules.js";
import { differs, segments } from "./part.js";

const text = modules.source;
const common = words.settings.source;
const NOTHING = "NOTHING";
const CHOICES = [NOTHING, "PLAN", "DEFAULT"];

export const fields = ["terraform_files_source", "auto_deploy_config"];

/** The choice of what a new commit starts: { node, read() }. */
export function onCommits(known = {}) {
  const isOn = known.auto_deploy && CHOICES.includes(known.terraform_action);
  let chosen = isOn ? known.terraform_action : NOTHING;
  const about = h("p", { class: "help", "aria-live": "polite" }, text.commitAbouts[chosen]);
  const choose = (value) => ((chosen = value), (about.textContent = text.commitAbouts[value]));
  const node = h("div", { class: "field", "data-field": "auto_deploy_config" }, h("span", { class: "field-title" }, text.commits), segments(text.commits, CHOICES.map((name) => [name, text.onCommit[name]]), chosen, choose), about);
  return { node, read: () => (chosen === NOTHING ? { auto_deploy: false, terraform_action: known.terraform_action || "DEFAULT" } : { auto_deploy: true, terraform_action: chosen }) };
}

export function edit({ document, service }) {
  const repository = service.terraform_files_source?.git_repository || {};
  const input = (value, placeholder) => h("input", { value: value || "", placeholder, autocomplete: "off", spellcheck: "false", oninput: (event) => (event.target.touched = true) });
  const url = input(repository.url, "https://github.com/acme/infrastructure.git");
  const branch = input(repository.branch, words.newService.defaultBranch);
  const root = input(repository.root_path, "/");
  const token = reference(document, "gitToken", repository.git_token_id || "");
  const commits = onCommits(service.auto_deploy_config);
  const before = commits.read();
  const read = () => ({ url: url.value.trim(), branch: branch.value.trim() || null, root_path: root.value.trim() || "/", git_token_id: token ? token.read() ?? null : repository.git_token_id ?? null });
  const changes = () => {
    const found = {};
    const changed = Object.fromEntries(Object.entries(read()).filter(([name, value]) => differs(value, name === "root_path" ? repository.root_path || "/" : repository[name])));
    if (Object.keys(changed).length) found.terraform_files_source = { git_repository: changed };
    if (differs(commits.read(), before)) found.auto_deploy_config = commits.read();
    return found;
  };
  return {
    title: text.title, changes,
    node: h("div", {},
      h("div", { "data-field": "terraform_files_source" }, h("div", { "data-field": "git_repository" },
        field(common.url, url, text.about, { name: "url" }),
        h("div", { class: "line" }, field(common.branch, branch, "", { name: "branch" }), field(common.root, root, "", { name: "root_path" }), token && field(common.token, token.input, "", { name: "git_token_id" })))),
      commits.node),
  };
}
