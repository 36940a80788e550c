// The form of a cluster: this machine or another one with Docker, how its certificates are made, and whether its engine answers.

import { api } from "../api.js";
import { h, prose } from "../dom.js";
import { schemaForm } from "../forms.js";
import { icon, logo } from "../icons.js";
import { button, dialog } from "../parts.js";
import { words } from "../words.js";
import { organizationForms } from "../words_of_forms.js";
import { providers } from "./provider.js";

const text = organizationForms.clusterForm;
const FIELDS = { DOCKER: ["engine_address", "engine_ca_certificate", "engine_certificate", "engine_key"], LOCAL: ["place"] };

export async function form({ document, schema }) {
  const fields = (engine) => {
    const shown = schemaForm(document, schema, { only: ["name", ...FIELDS[engine]] });
    const more = schemaForm(document, schema, { only: ["description", "router_port", "engine_id"].filter((name) => name !== "engine_id" || engine === "DOCKER") });
    return { node: h("div", {}, shown.node, h("details", {}, h("summary", {}, words.newService.further), more.node)), read: () => ({ ...more.read(), ...shown.read() }) };
  };
  const kinds = [["DOCKER", text.docker, text.dockerAbout, logo("docker", "large")], ["LOCAL", text.local, text.localAbout, icon("server", "large")]];
  return providers(text.kind, kinds, "engine", (engine) => text.steps[engine].map(prose), fields);
}

/** Asks the engine of a cluster that was made just now. One that does not answer is kept only if it is wanted. */
export async function create(path, body) {
  const made = await api.post(path, body);
  const { status, message } = await api.get(`${path}/${made.id}/status`);
  if (status === "DEPLOYED") return made;
  const isKept = await dialog(text.silent, (finish) => [h("p", {}, prose(message || text.noReason)), h("div", { class: "dialog-actions" }, button(text.back, () => finish(false), { main: true }), button(text.keep, () => finish(true)))]);
  if (isKept) return made;
  await api.delete(`${path}/${made.id}`);
  return null;
}
