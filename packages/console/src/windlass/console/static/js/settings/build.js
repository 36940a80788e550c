// How a repository is built: by what was detected, with commands of one's own where they are named, or by a Dockerfile.

import { h } from "../dom.js";
import { field } from "../parts.js";
import { words } from "../words.js";
import { forms } from "../words_of_settings.js";
import { differs, segments } from "./part.js";
import { rowList } from "./rows.js";

const text = forms.build;
const KINDS = ["AUTO", "RECIPE", "DOCKERFILE"];
const RECIPE = ["install_command", "build_command", "language_version"];
const DOCKERFILE = ["dockerfile_path", "docker_target_build_stage"];
const STATIC = ["static_folder", "static_fallback"];

export const fields = ["builder", ...DOCKERFILE, ...RECIPE, "system_packages", ...STATIC, "static_headers"];

export function edit({ service }) {
  let builder = service.builder || "AUTO";
  const inputs = Object.fromEntries([...RECIPE, ...DOCKERFILE, ...STATIC].map((name) => [name, lineOf(service[name], text.examples[name])]));
  const one = (name) => field(text.names[name], inputs[name], text.helps[name] || "", { name });
  const packages = h("textarea", { rows: 2, class: "code", value: (service.system_packages || []).join("\n"), placeholder: words.onePerLine, spellcheck: "false", oninput: touch });
  const headers = rowList(service.static_headers || [], header, { none: text.noHeaders });
  const kept = headers.read();
  const isSite = STATIC.some((name) => service[name]) || kept.length > 0;
  const site = h("details", { open: isSite }, h("summary", {}, text.site), h("p", { class: "help" }, text.siteHelp), h("div", { class: "line" }, STATIC.map(one)), h("div", { "data-field": "static_headers" }, h("h3", {}, text.headers), headers.node));
  const recipe = h("div", {}, RECIPE.slice(0, 2).map(one), h("div", { class: "line" }, one("language_version"), field(text.packages, packages, text.packagesHelp, { name: "system_packages" })), site);
  const file = h("div", {}, h("div", { class: "line" }, DOCKERFILE.map(one)));
  const about = h("p", { class: "help" });
  const show = () => {
    [recipe.hidden, file.hidden] = [builder === "DOCKERFILE", builder === "RECIPE"];
    about.textContent = text.abouts[builder];
  };
  show();
  const changes = () => {
    const found = {};
    if (builder !== (service.builder || "AUTO")) found.builder = builder;
    for (const [name, input] of Object.entries(inputs)) if (input.value.trim() !== (service[name] || "")) found[name] = input.value.trim() || null;
    const wanted = packages.value.split("\n").map((line) => line.trim()).filter(Boolean);
    if (differs(wanted, service.system_packages || [])) found.system_packages = wanted;
    if (differs(headers.read(), kept)) found.static_headers = headers.read();
    return found;
  };
  return { title: text.title, changes, node: h("div", {}, h("div", { "data-field": "builder" }, segments(text.title, KINDS.map((name) => [name, text.kinds[name]]), builder, (value) => ((builder = value), show())), about), recipe, file) };
}

const touch = (event) => (event.target.touched = true);
const lineOf = (value, placeholder) => h("input", { class: "code", value: value || "", placeholder, autocomplete: "off", spellcheck: "false", oninput: touch });

function header({ path, name, value }) {
  const parts = { path: lineOf(path, "/assets/*"), name: lineOf(name, "Cache-Control"), value: lineOf(value, "max-age=31536000") };
  return {
    node: h("div", { class: "line" }, Object.entries(parts).map(([key, input]) => field(text.ofHeader[key], input, "", { name: key }))),
    read: () => Object.fromEntries(Object.entries(parts).map(([key, input]) => [key, input.value.trim()])),
  };
}
