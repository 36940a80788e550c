// What a job runs: a repository that is built, or an image.

import { h } from "../dom.js";
import { field } from "../parts.js";
import { reference } from "../references.js";
import { words } from "../words.js";
import { images } from "../words_of_images.js";
import { forms } from "../words_of_settings.js";
import { differs, segments } from "./part.js";

const text = words.settings.source;
const build = forms.build;

export const fields = ["source"];

export function edit({ document, service }) {
  const { docker = null, image = null } = service.source || {};
  const repository = docker?.git_repository || {};
  const before = image ? "image" : "docker";
  let kind = before;
  const line = (value, placeholder = "") => h("input", { value: value || "", placeholder, autocomplete: "off", spellcheck: "false", oninput: (event) => (event.target.touched = true) });
  const url = line(repository.url, "https://github.com/acme/shop.git"), branch = line(repository.branch, words.newService.defaultBranch), root = line(repository.root_path, "/");
  const file = line(docker?.dockerfile_path, build.examples.dockerfile_path), stage = line(docker?.docker_target_build_stage);
  const token = reference(document, "gitToken", repository.git_token_id || "");
  const name = line(image?.image_name, "docker.io/library/alpine"), tag = line(image?.tag, "latest");
  const registry = reference(document, "containerRegistry", image?.registry_id || "");
  const boxes = {
    docker: h("div", { "data-field": "docker" },
      h("div", { "data-field": "git_repository" }, field(text.url, url, "", { name: "url" }), h("div", { class: "line" }, field(text.branch, branch, "", { name: "branch" }), field(text.root, root, "", { name: "root_path" }), token && field(text.token, token.input, "", { name: "git_token_id" }))),
      h("div", { class: "line" }, field(build.names.dockerfile_path, file, build.helps.dockerfile_path, { name: "dockerfile_path" }), field(build.names.docker_target_build_stage, stage, build.helps.docker_target_build_stage, { name: "docker_target_build_stage" }))),
    image: h("div", { "data-field": "image" },
      h("div", { class: "line wide-first" }, field(images.image, name, "", { name: "image_name" }), field(images.tag, tag, images.tagHelp, { name: "tag" })), registry && field(images.registry, registry.input, images.registryHelp, { name: "registry_id" })),
  };
  const show = () => Object.entries(boxes).forEach(([one, box]) => (box.hidden = one !== kind));
  show();
  const value = (input) => input.value.trim() || null;
  const kinds = {
    docker: () => ({ git_repository: { url: value(url), branch: value(branch), root_path: value(root) || "/", git_token_id: token ? token.read() ?? null : repository.git_token_id ?? null }, dockerfile_path: value(file), docker_target_build_stage: value(stage) }),
    image: () => ({ image_name: value(name), tag: value(tag), registry_id: registry ? registry.read() ?? null : image?.registry_id ?? null }),
  };
  const start = JSON.stringify(kinds[before]());
  // Of the two, the one that is left is sent as null.
  const changes = () => (kind !== before ? { source: { [before]: null, [kind]: kinds[kind]() } } : differs(kinds[kind](), JSON.parse(start)) ? { source: { [kind]: kinds[kind]() } } : {});
  return { title: text.title, changes, node: h("div", { "data-field": "source" }, segments(text.title, [["docker", text.git], ["image", words.newJob.image]], kind, (one) => ((kind = one), show())), Object.values(boxes)) };
}
