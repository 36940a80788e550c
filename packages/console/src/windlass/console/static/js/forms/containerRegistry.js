// The form of a container registry: the provider, how a login is made there, and its fields. The server tries the login before it keeps it.

import { h, prose } from "../dom.js";
import { schemaForm } from "../forms.js";
import { ago } from "../format.js";
import { icon, logo } from "../icons.js";
import { badge } from "../states.js";
import { words } from "../words.js";
import { organizationForms } from "../words_of_forms.js";
import { providers } from "./provider.js";

const text = organizationForms.registryForm;
const LOGOS = { DOCKER_HUB: "docker", GITHUB_CR: "github", GITHUB_ENTERPRISE_CR: "github", GITLAB_CR: "gitlab", DOCR: "digitalocean", SCALEWAY_CR: "scaleway", GCP_ARTIFACT_REGISTRY: "googlecloud", ECR: "aws", PUBLIC_ECR: "aws", AZURE_CR: "azure" };
const ORDER = ["DOCKER_HUB", "GITHUB_CR", "GITLAB_CR", "ECR", "GCP_ARTIFACT_REGISTRY", "AZURE_CR", "DOCR", "SCALEWAY_CR", "GENERIC_CR"];
const NEEDS_URL = ["GENERIC_CR", "ECR", "GCP_ARTIFACT_REGISTRY", "AZURE_CR", "GITHUB_ENTERPRISE_CR", "SCALEWAY_CR", "DOCR"];

// The provider stays. A secret that is left empty stays as it is stored.
function editForm(document, schema, inner, names, values) {
  const about = schemaForm(document, schema, { only: ["name", "description", "url"], values });
  const login = schemaForm(document, inner, { only: names, values: values.config || {} });
  const changes = () => {
    const config = login.changes();
    return { ...about.changes(), ...(Object.keys(config).length > 0 && { config }) };
  };
  return { changes, node: h("div", {}, about.node, h("div", { "data-field": "config" }, login.node), h("p", { class: "muted" }, text.kept)) };
}

export async function form({ document, schema, values }) {
  const inner = document.resolve(schema.properties.config);
  const rule = inner["x-fields-by"].values;
  if (values) return editForm(document, schema, inner, rule[values.kind] || [], values);
  const kinds = document.resolve(schema.properties.kind).enum;
  const order = [...ORDER.filter((kind) => kinds.includes(kind)), ...kinds.filter((kind) => !ORDER.includes(kind))];
  const fields = (kind) => {
    const first = schemaForm(document, schema, { only: NEEDS_URL.includes(kind) ? ["name", "url"] : ["name"] });
    const login = schemaForm(document, inner, { only: rule[kind] || [] });
    const more = schemaForm(document, schema, { only: NEEDS_URL.includes(kind) ? ["description"] : ["url", "description"] });
    return {
      node: h("div", {}, first.node, h("div", { "data-field": "config" }, login.node), h("details", {}, h("summary", {}, words.newService.further), more.node)),
      read: () => ({ ...more.read(), ...first.read(), config: login.read() }),
    };
  };
  const steps = (kind) => (text.steps[kind] || []).map(prose);
  return providers(text.kind, order.map((kind) => [kind, text.kinds[kind] || words.readable(kind), "", logo(LOGOS[kind], "large") || icon("package", "large")]), "kind", steps, fields);
}

export const columns = [
  { title: text.check, cell: ({ check }) => check && [badge(check.status), check.message && h("p", { class: "message" }, prose(check.message))] },
  { title: text.kind, kind: "titled", cell: ({ kind }) => [logo(LOGOS[kind]), " ", text.kinds[kind] || words.readable(kind)] },
  { title: text.address, kind: "host-cell titled", cell: ({ url }) => h("span", { class: "muted" }, url.replace(/^https:\/\//, "")) },
  { title: text.used, kind: "number titled", cell: ({ associated_services_count: count }) => count },
  { title: text.user, isRare: true, cell: ({ config }) => config?.username },
  { title: text.left, isRare: true, cell: ({ check }) => check?.rate_limit && text.ofLimit(check.rate_limit.remaining, check.rate_limit.limit) },
  { title: text.checked, isRare: true, cell: ({ check }) => check && ago(check.checked_at) },
];
