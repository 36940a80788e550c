// The ports of a service: where its program listens, and who reaches it there.

import { h } from "../dom.js";
import { field } from "../parts.js";
import { forms } from "../words_of_settings.js";
import { amount, differs } from "./part.js";
import { rowList } from "./rows.js";

const text = forms.ports;
const BY_NAME = ["HTTP", "GRPC"]; // These are told apart by the host name of a request; others have a port of the machine.
const HTTPS = 443;

export const fields = ["ports", "automatic_port"];

export function edit({ document, schema, service }) {
  const known = service.ports || [];
  const protocols = document.resolve(document.resolve(document.resolve(schema.properties.ports).items).properties.protocol).enum;
  const automatic = schema.properties.automatic_port && h("input", { type: "checkbox", role: "switch", checked: Boolean(service.automatic_port), onchange: (event) => (event.target.touched = true) });
  let isThere = false;
  const byHand = () => automatic && isThere && (automatic.checked = false); // Ports that are named are followed no longer.
  const list = rowList(known, (value) => row(value, protocols), { none: text.none, onchange: byHand });
  isThere = true;
  list.node.addEventListener("input", byHand);
  const start = list.read();
  const changes = () => {
    if (automatic && automatic.checked) return service.automatic_port ? {} : { automatic_port: true };
    const ports = list.read();
    return differs(ports, start) || (automatic && service.automatic_port) ? { ports } : {};
  };
  return {
    title: text.title, about: text.about, changes,
    node: h("div", { "data-field": "ports" }, automatic && field(text.automatic, automatic, text.automaticHelp, { isSwitch: true, name: "automatic_port" }), list.node),
  };
}

function row(value, protocols) {
  const port = amount(value.internal_port, null, { min: 1, max: 65535, placeholder: "8080" });
  const protocol = h("select", {}, protocols.map((name) => h("option", { value: name, selected: name === (value.protocol || "HTTP") }, text.protocols[name] || name)));
  const open = h("input", { type: "checkbox", role: "switch", checked: value.id ? Boolean(value.publicly_accessible) : true });
  const outside = amount(BY_NAME.includes(value.protocol) ? null : value.external_port, null, { min: 1, max: 65535, placeholder: text.chosen });
  const line = (given, placeholder = "") => h("input", { value: given || "", placeholder, autocomplete: "off", spellcheck: "false", oninput: (event) => (event.target.touched = true) });
  const name = line(value.name), path = line(value.public_path, "/"), rewrite = line(value.public_path_rewrite, "/");
  const reach = h("p", { class: "help" });
  const outsideField = field(text.outside, outside.input, "", { name: "external_port" });
  const show = () => {
    const byName = BY_NAME.includes(protocol.value);
    outsideField.hidden = byName || protocol.value === "UDP" || !open.checked;
    reach.textContent = open.checked && protocol.value !== "UDP" ? text.reach[protocol.value] || text.reach.TCP : text.inside;
  };
  for (const input of [protocol, open]) input.addEventListener("change", show);
  show();
  // The name that Windlass gives to a port follows its number.
  const nameNow = () => (name.value.trim() === `p${value.internal_port}` && port.read() !== value.internal_port ? "" : name.value.trim());
  const own = (given, before) => given.value.trim() || (before ? null : undefined);
  const more = h("details", { open: Boolean(value.public_path) }, h("summary", {}, text.more), h("div", { class: "line" },
    field(text.name, name, "", { name: "name" }), field(text.path, path, text.pathHelp, { name: "public_path" }), field(text.rewrite, rewrite, "", { name: "public_path_rewrite" })));
  return {
    node: h("div", {}, h("div", { class: "line" }, field(text.port, port.input, "", { name: "internal_port" }), field(text.protocol, protocol, "", { name: "protocol" }), outsideField, field(text.isPublic, open, "", { isSwitch: true, name: "publicly_accessible" })), reach, more),
    read: () => {
      const byName = BY_NAME.includes(protocol.value);
      const external = byName ? (open.checked ? (BY_NAME.includes(value.protocol) && value.external_port) || HTTPS : undefined) : outside.read() ?? undefined;
      const found = { id: value.id, internal_port: port.read() ?? undefined, protocol: protocol.value, publicly_accessible: open.checked, external_port: external, name: nameNow() || undefined, public_path: own(path, value.public_path), public_path_rewrite: own(rewrite, value.public_path_rewrite) };
      if (value.is_default && open.checked) found.is_default = true; // Otherwise, the first public one is the main one.
      return Object.fromEntries(Object.entries(found).filter(([, given]) => given !== undefined));
    },
  };
}
