// The form of a container registry: the provider, how a login is made there, and its fields. The server tries the login before it keeps it.

import { h, prose } from "../dom.js";
import { schemaForm } from "../forms.js";
import { icon, logo } from "../icons.js";
import { words } from "../words.js";
import { organizationForms } from "../words_of_forms.js";
import { providers } from "./provider.js";

const text = organizationForms.registryForm;
const LOGOS = { DOCKER_HUB: "docker", GITHUB_CR: "github", GITHUB_ENTERPRISE_CR: "github", GITLAB_CR: "gitlab", DOCR: "digitalocean", SCALEWAY_CR: "scaleway", GCP_ARTIFACT_REGISTRY: "googlecloud", ECR: "aws", PUBLIC_ECR: "aws", AZURE_CR: "azure" };
const ORDER = ["DOCKER_HUB", "GITHUB_CR", "GITLAB_CR", "ECR", "GCP_ARTIFACT_REGISTRY", "AZURE_CR", "DOCR", "SCALEWAY_CR", "GENERIC_CR"];
const NEEDS_URL = ["GENERIC_CR", "ECR", "GCP_ARTIFACT_REGISTRY", "AZURE_CR", "GITHUB_ENTERPRISE_CR", "SCALEWAY_CR", "DOCR"];

export async function form({ document, schema }) {
  const kinds = document.resolve(schema.properties.kind).enum;
  const order = [...ORDER.filter((kind) => kinds.includes(kind)), ...kinds.filter((kind) => !ORDER.includes(kind))];
  const inner = document.resolve(schema.properties.config);
  const rule = inner["x-fields-by"].values;
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
