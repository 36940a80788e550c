// Tags of an image that are newer than the present one, as its registry has them now.

import { api } from "../../api.js";
import { h } from "../../dom.js";
import { button, confirm, copyButton, errorBox, facts, panel, table } from "../../parts.js";
import { deploy } from "../../services.js";
import { words } from "../../words.js";
import { serving } from "../service.js";

const text = words.tags;

export async function load(state, place) {
  const content = {};
  content.read = async () => Object.assign(content, { rows: null, error: null }, await newer(state.path));
  content.again = async () => (await content.read(), place.update());
  await content.read();
  return content;
}

// The registry may not answer, or allow no more requests: its reason is shown in place of the list.
const newer = (path) => api.get(`${path}/version`).then(({ results }) => ({ rows: results }), (error) => ({ error }));

export function render(state, place) {
  const { content, service } = state;
  return [
    panel(null, facts([
      [text.present, [h("code", {}, `${service.image_name}:${service.tag}`), copyButton(`${service.image_name}:${service.tag}`)]],
      [text.digest, serving(state)?.image_digest && h("code", {}, serving(state).image_digest)],
    ]), h("div", { class: "actions" }, button(text.look, content.again, { small: true }))),
    content.error ? errorBox(content.error, button(words.tryAgain, content.again)) : list(state, place),
  ];
}

function list(state, place) {
  const { content, service, path } = state;
  if (!content.rows.length) return panel(text.title, h("p", { class: "muted" }, text.none(service.tag)));
  return panel(text.title, table([
    { title: text.tag, wide: true, cell: (row) => [h("strong", {}, row.name), row.name === service.tag && h("span", { class: "muted" }, ` ${text.moved}`)] },
    ...(content.rows.some((row) => row.digest) ? [{ title: text.digest, cell: (row) => row.digest && h("code", { title: row.digest }, row.digest.replace(/^sha256:/, "").slice(0, 12)) }] : []),
    { title: "", kind: "number", cell: (row) => button(text.deploy, () => deployTag(state, place, path, row.name), { small: true, needs: ["POST", `${path}/deploy`] }) },
  ], content.rows, { key: (row) => row.name, label: text.title }));
}

async function deployTag({ service, status }, place, path, tag) {
  const will = status.running_instances ? text.replaces(status.running_instances) : text.begins;
  if (await confirm(text.deployTitle(service.name, tag), will, { action: text.deploy })) await deploy(place, path, { image_tag: tag });
}
