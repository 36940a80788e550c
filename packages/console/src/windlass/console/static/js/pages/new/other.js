// A new service of a kind without a page made by hand: the form is that of the API.

import { api } from "../../api.js";
import { fill, h, own, prose } from "../../dom.js";
import { schemaForm } from "../../forms.js";
import { button } from "../../parts.js";
import { finish } from "../../services.js";
import { words } from "../../words.js";

const text = words.newService;

export const begin = async (state) => draw(state, { kind: state.kind });

const operationOf = (state, kind) => state.document.at("POST", `/environment/x/${kind}`);

function draw(state, content) {
  const schema = state.document.body(operationOf(state, content.kind));
  const first = [...(schema.required || []), "description"].filter((name, index, all) => all.indexOf(name) === index);
  const rest = Object.keys(schema.properties).filter((name) => !first.includes(name) && name !== "icon_uri");
  const form = { first: schemaForm(state.document, schema, { only: first, values: { name: state.suggested } }), rest: schemaForm(state.document, schema, { only: rest }) };
  form.node = h("div", {}, form.first.node, h("details", {}, h("summary", {}, text.further), form.rest.node));
  return Object.assign(content, { form });
}

export const isFilledIn = ({ form }) => [...form.node.querySelectorAll("input, textarea")].some(({ touched }) => touched);

export function render(state, content, place) {
  const path = `/environment/${state.environment}/${content.kind}`;
  return h("section", { class: "panel", key: `other-${content.kind}` },
    aboutKind(content.kind, operationOf(state, content.kind)),
    own(noticeOf(state, content)),
    own(content.form.node),
    h("div", { class: "actions" },
      button(text.createOnly, () => create(content, place, path, false), { needs: ["POST", path] }),
      button(text.create, () => create(content, place, path, true), { main: true, icon: "rocket", needs: [["POST", path], ["POST", `/${content.kind}/x/deploy`]] })));
}

/** Says that the engine of the environment runs no images, if an image is what is made. It is asked once for each environment. */
export function noticeOf({ base, environments, environment }, content) {
  const cluster = environments.find(({ id }) => id === environment)?.cluster_id;
  if (content.noticeOf === environment) return content.notice;
  const node = h("div", {});
  Object.assign(content, { notice: node, noticeOf: environment });
  if (content.kind === "container" && cluster) api.seen(`${base}/cluster/${cluster}/status`).then((status) => status?.runs_images === false && fill(node, h("p", { class: "trouble", role: "status" }, text.abouts.needsImages)), () => {});
  return node;
}

// The description of a kind without a sentence here is that of the API.
function aboutKind(kind, { description = "" }) {
  const about = text.abouts[kind] || prose(description);
  return about && h("p", { class: "muted" }, about);
}

async function create({ form, kind }, place, path, thenDeploy) {
  const { id } = await api.post(path, { ...form.rest.changes(), ...form.first.read() });
  return finish(place, `/${kind}/${id}`, { thenDeploy });
}
