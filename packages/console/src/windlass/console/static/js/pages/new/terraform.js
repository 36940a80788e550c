// A new Terraform service: where its module is, the values of its inputs, the program, and where its state is kept.

import { api } from "../../api.js";
import { h, own } from "../../dom.js";
import { forgetEdits } from "../../edits.js";
import { fieldError } from "../../field_errors.js";
import { button, field } from "../../parts.js";
import { finish } from "../../services.js";
import { inputsEditor, needsOfReading, readModule } from "../../settings/module_inputs.js";
import { programEditor, readVersions } from "../../settings/module_program.js";
import { onCommits } from "../../settings/module_source.js";
import { stateEditor } from "../../settings/module_state.js";
import { words } from "../../words.js";
import { modules as text } from "../../words_of_modules.js";
import { nameOf, readBranches, repositoryFields, repositoryOf } from "./repository.js";

const SOURCE = "terraform_files_source.git_repository";

export async function begin(state) {
  const versions = await readVersions();
  const program = programEditor({ engine: versions[0]?.engine || "TERRAFORM", timeout_sec: 600 });
  program.show(versions);
  return { url: "", branch: "", root: "/", token: "", name: state.suggested || "", inputs: inputsEditor(), program, kept: stateEditor(), commits: onCommits() };
}

export const isFilledIn = ({ url, isTouched }) => Boolean(url || isTouched);

export function render(state, content, place) {
  const path = `/environment/${state.environment}/terraform`;
  const set = (event) => (Object.assign(content, { name: event.target.value, isTouched: true }), (event.target.touched = true));
  const part = (heading, ...nodes) => h("section", { class: "panel" }, h("h2", {}, heading), nodes);
  const run = ["POST", "/terraform/x/deploy"];
  return h("div", { key: "terraform" },
    part(text.source.title, h("p", { class: "muted" }, words.newService.abouts.terraform),
      repositoryFields(state, content, SOURCE),
      h("div", { class: "line narrow" }, field(words.columns.name, h("input", { id: "name", value: content.name, placeholder: content.url ? nameOf(content.url, content.root) : "network", autocomplete: "off", spellcheck: "false", oninput: set }), "", { name: "name" })),
      h("div", { class: "actions" }, button(content.found ? text.source.lookAgain : text.source.look, () => look(state, content, place), { icon: "search", key: "look", needs: needsOfReading() }))),
    part(text.inputs.title, h("p", { class: "muted", role: "status" }, !content.found ? text.inputs.about : content.found.inputs.length ? "" : text.source.asksNothing), own(content.inputs.node)),
    part(text.state.title, own(content.kept.node)),
    part(text.program.title, own(content.program.node)),
    h("section", { class: "panel" }, own(content.commits.node)),
    h("p", { class: "muted" }, text.createHelp),
    h("div", { class: "actions" },
      button(words.newService.createOnly, () => create(content, place, path), { needs: ["POST", path] }),
      button(text.createAndApply, () => create(content, place, path, {}), { needs: [["POST", path], run] }),
      button(text.create, () => create(content, place, path, { action: "PLAN" }), { main: true, icon: "rocket", needs: [["POST", path], run] })));
}

async function look(state, content, place) {
  if (!content.url.trim()) throw fieldError(`${SOURCE}.url`, text.urlMissing);
  const repository = repositoryOf(content);
  [content.found, content.branches] = await Promise.all([readModule(repository), readBranches(state.base, repository)]);
  content.inputs.show(content.found);
  place.update();
}

// A plan is read on its own page.
async function create(content, place, path, run) {
  if (!content.url.trim()) throw fieldError(`${SOURCE}.url`, text.urlMissing);
  const body = {
    name: content.name.trim() || nameOf(content.url, content.root), terraform_files_source: { git_repository: repositoryOf(content) }, terraform_variables_source: content.inputs.read(),
    backend: content.kept.read(), auto_deploy_config: content.commits.read(), ...content.program.read(),
  };
  const { id } = await api.post(path, body);
  if (run?.action !== "PLAN") return finish(place, `/terraform/${id}`, { thenDeploy: Boolean(run) });
  forgetEdits();
  await place.go(`/terraform/${id}/plan`);
  await api.post(`/terraform/${id}/deploy`, run);
  await place.go(`/terraform/${id}/plan`, { replace: true });
}
