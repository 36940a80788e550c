// A new container: an image of a registry, the port on which it listens, its size and its variables.

import { api } from "../../api.js";
import { fill, h, own } from "../../dom.js";
import { fieldError } from "../../field_errors.js";
import { button, errorText, field, showError } from "../../parts.js";
import { reference } from "../../references.js";
import { finish } from "../../services.js";
import * as size from "../../settings/size.js";
import { words } from "../../words.js";
import { images } from "../../words_of_images.js";
import { noticeOf } from "./other.js";

const text = images;
const TAGGED = /^(.+\/)?([^/:@]+):([\w.-]+)$/;
const HTTPS = 443;

export async function begin(state) {
  const content = { kind: "container", image: "", tag: "latest", name: state.suggested || "", port: "", isPublic: true, command: "", variables: "", size: size.edit({ service: { cpu: 500, memory: 512 } }), registry: reference(state.document, "containerRegistry", ""), checked: h("div", { role: "status" }) };
  if (content.registry) content.registryField = field(text.registry, content.registry.input, text.registryHelp, { name: "registry_id" });
  return content;
}

export const isFilledIn = ({ image, variables }) => Boolean(image || variables);

/** A name for the service: the last part of that of its image. */
const nameOf = (image) => image.split("/").pop().toLowerCase().replace(/[^a-z0-9-]+/g, "-").replace(/^-+|-+$/g, "");

export function render(state, content, place) {
  const path = `/environment/${state.environment}/container`;
  const set = (name) => (event) => (Object.assign(content, { [name]: event.target.value }), (event.target.touched = true), place.update());
  const input = (name, props = {}) => h("input", { id: `container-${name}`, value: content[name], autocomplete: "off", spellcheck: "false", oninput: set(name), ...props });
  // A tag that was pasted with the name goes to its own field.
  const split = (event) => {
    const [, before = "", last, tag] = TAGGED.exec(event.target.value.trim()) || [];
    if (!last) return;
    Object.assign(content, { image: before + last, tag });
    for (const [id, value] of [["image", content.image], ["tag", tag]]) document.getElementById(`container-${id}`).value = value;
    place.update();
  };
  const check = ["POST", `/environment/${state.environment}/checkContainerImage`];
  return h("div", { key: "container" },
    h("section", { class: "panel" },
      h("p", { class: "muted" }, words.newService.abouts.container), own(noticeOf(state, content)),
      h("div", { class: "line wide-first" }, field(text.image, input("image", { placeholder: "docker.io/library/nginx", onblur: split, autofocus: true }), text.imageHelp, { name: "image_name" }), field(text.tag, input("tag"), text.tagHelp, { name: "tag" })),
      content.registryField && own(content.registryField),
      state.document.at(...check) && h("div", { class: "field" }, button(text.look, () => look(state, content), { small: true, icon: "search", needs: check }), own(content.checked)),
      h("div", { class: "line narrow" }, field(words.columns.name, input("name", { placeholder: nameOf(content.image) || "nginx" }), "", { name: "name" }))),
    h("section", { class: "panel" }, h("h2", {}, text.reach),
      h("div", { class: "line narrow" }, field(text.port, input("port", { type: "number", min: 1, max: 65535, placeholder: "80" }), text.portHelp, { name: "ports.0.internal_port" })),
      content.port && h("div", { key: "public" }, field(text.isPublic, h("input", { id: "container-public", type: "checkbox", role: "switch", checked: content.isPublic, onchange: (event) => (content.isPublic = event.target.checked) }), text.isPublicHelp, { isSwitch: true, name: "ports.0.publicly_accessible" }))),
    h("section", { class: "panel" }, h("h2", {}, words.settings.size.title), own(content.size.node)),
    h("section", { class: "panel" },
      field(words.newService.variables, h("textarea", { id: "variables", rows: 3, class: "code", placeholder: "GREETING=hello", spellcheck: "false", value: content.variables, oninput: set("variables") }), words.newService.variablesHelp, { name: "variables" }),
      h("details", {}, h("summary", {}, words.newService.further), field(text.command, input("command", { class: "code" }), text.commandHelp, { name: "entrypoint" }))),
    h("div", { class: "actions" }, button(words.newService.createOnly, () => create(content, place, path, false), { needs: ["POST", path] }), button(words.newService.create, () => create(content, place, path, true), { main: true, icon: "rocket", needs: [["POST", path], ["POST", "/container/x/deploy"]] })));
}

function imageOf({ image, tag, registry }) {
  if (!image.trim()) throw fieldError("image_name", text.imageMissing);
  return { image_name: image.trim(), tag: tag.trim(), registry_id: registry?.read() || undefined };
}

async function look({ environment }, content) {
  try {
    const found = await api.post(`/environment/${environment}/checkContainerImage`, imageOf(content));
    fill(content.checked, h("p", { class: "help" }, text.found, " ", h("code", {}, found.image)));
  } catch (error) {
    fill(content.checked, error.isOfField ? null : h("p", { class: "trouble" }, errorText(error)));
    if (error.isOfField) showError(error);
  }
}

async function create(content, place, path, thenDeploy) {
  const { parseDotenv } = await import("../../dotenv.js");
  const variables = parseDotenv(content.variables, "variables");
  const body = { name: content.name.trim() || nameOf(content.image), ...imageOf(content), ...content.size.read() };
  if (content.port) body.ports = [{ internal_port: Number(content.port), protocol: "HTTP", publicly_accessible: content.isPublic, ...(content.isPublic && { external_port: HTTPS }) }];
  if (content.command.trim()) body.entrypoint = content.command.trim();
  const { id } = await api.post(path, body);
  return finish(place, `/container/${id}`, { variables, thenDeploy });
}
