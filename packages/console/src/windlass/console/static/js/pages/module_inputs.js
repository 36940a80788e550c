// The input variables of a Terraform module, read from its repository before a service is made of it.

import { api } from "../api.js";
import { h, prose } from "../dom.js";
import { facts } from "../parts.js";
import { words } from "../words.js";

const text = words.module;

/** Reads the input variables of a module, and its files with values. */
export async function readInputs(base, repository) {
  const body = { git_repository: repository };
  const [inputs, files] = await Promise.all([
    api.post(`${base}/parseTerraformVariablesFromGitRepo`, body),
    api.post(`${base}/listTfVarsFilesFromGitRepo`, { ...body, mode: { type: "AutoDiscover" } })]);
  return { inputs: inputs.results, files: files.results };
}

/** The rows to be filled in: those without a default. */
export const rowsOf = ({ inputs }) => inputs.filter(isNeeded).map(({ key, sensitive }) => ({ key, secret: sensitive }));

const isNeeded = (input) => input.default === null;

export function about({ inputs, files }) {
  return h("div", {},
    h("p", {}, inputs.length ? text.asks : text.asksNothing),
    facts(inputs.map((input) => [h("code", {}, input.key), [input.description && [prose(input.description), " "], h("span", { class: "muted" }, input.sensitive ? text.sensitive : isNeeded(input) ? text.needed : text.usual(input.default))]])),
    files.length > 0 && h("p", { class: "muted" }, text.files(files.map(({ source }) => source).join(", "))));
}
