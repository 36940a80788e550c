// The values of the input variables of a Terraform module. Those that the module declares are read from its repository.

import { api } from "../api.js";
import { fill, h, prose } from "../dom.js";
import { button, field } from "../parts.js";
import { inOrganization } from "../rights.js";
import { words } from "../words.js";
import { modules } from "../words_of_modules.js";
import { differs } from "./part.js";

const text = modules.inputs;
const touch = (event) => (event.target.touched = true);

export const fields = ["terraform_variables_source"];

/** Reads the input variables of a module, and its files with values. */
export async function readModule(repository) {
  const body = { git_repository: repository };
  const [inputs, files] = await Promise.all([
    api.post(inOrganization("parseTerraformVariablesFromGitRepo"), body),
    api.post(inOrganization("listTfVarsFilesFromGitRepo"), { ...body, mode: { type: "AutoDiscover" } })]);
  return { inputs: inputs.results, files: files.results };
}

export const needsOfReading = () => ["POST", inOrganization("parseTerraformVariablesFromGitRepo")];

/** The fields of all values: { node, read(), show(found) }, where `show` adds what a module declares. */
export function inputsEditor({ tf_vars: values = [], tf_var_file_paths: paths = [] } = {}) {
  const rows = [];
  const needed = h("div", {}), optional = h("div", {});
  const nothing = h("p", { class: "muted" }, text.none);
  const count = h("summary", {});
  const folded = h("details", { hidden: true }, count, optional);
  const show = () => {
    nothing.hidden = rows.length > 0;
    folded.hidden = !optional.firstChild;
    count.textContent = text.withDefaults(optional.childElementCount);
  };
  const leave = (row) => (rows.splice(rows.indexOf(row), 1), row.node.remove(), show());
  const add = (row, place = needed) => (rows.push(row), place.append(row.node), show(), row);
  const addNamed = (value = {}) => add(namedRow(value, leave));
  values.forEach(addNamed);
  show();
  let files = pathsField(paths);
  const filesPlace = h("div", {}, files.node);
  // What was filled in for a variable stays when the module that declares it is read.
  const showFound = (found) => {
    for (const input of found.inputs) {
      const known = rows.find(({ key }) => key() === input.key);
      const value = known ? known.value() : {};
      if (known) leave(known);
      const row = declaredRow(input, value);
      add(row, input.default === null || value.value || value.isKept ? needed : optional);
    }
    for (const row of rows) row.note?.(found.inputs.length && !found.inputs.some(({ key }) => key === row.key()) ? text.undeclared : "");
    const chosen = files.read();
    files = found.files.length ? filesChoice(found.files, chosen) : pathsField(chosen);
    fill(filesPlace, files.node);
    show();
  };
  return {
    node: h("div", { "data-field": "terraform_variables_source" },
      h("div", { class: "inputs", "data-field": "tf_vars" }, nothing, needed, folded, button(text.add, () => addNamed().node.querySelector("input").focus(), { small: true, icon: "plus" })),
      h("p", { class: "help" }, text.valueHelp), filesPlace),
    show: showFound,
    read: () => ({ tf_vars: rows.map((row) => row.read()).filter(Boolean), tf_var_file_paths: files.read() }),
  };
}

function valueInput({ value, secret, isKept }) {
  return h("input", { class: "code", type: secret ? "password" : "text", value: value || "", placeholder: isKept ? text.kept : "", autocomplete: secret ? "new-password" : "off", spellcheck: "false", oninput: touch });
}

// A secret that was saved and is not typed again keeps its value.
const sent = (key, input, secret, isKept) => (secret && isKept && !input.value ? { key, secret } : { key, value: input.value, secret });

function namedRow(known, leave) {
  const isKept = Boolean(known.secret && known.key && known.value === undefined);
  const key = h("input", { class: "code", value: known.key || "", autocomplete: "off", spellcheck: "false", oninput: touch });
  const value = valueInput({ ...known, isKept });
  const secret = h("input", { type: "checkbox", checked: Boolean(known.secret), onchange: () => (value.type = secret.checked ? "password" : "text") });
  const note = h("p", { class: "trouble fine" });
  const row = {
    key: () => key.value.trim(),
    value: () => ({ value: value.value, secret: secret.checked, isKept }),
    note: (why) => (note.textContent = why),
    read: () => (key.value.trim() || value.value ? sent(key.value.trim(), value, secret.checked, isKept) : null),
  };
  row.node = h("div", { class: "input-row" },
    field(text.key, key, "", { name: "key" }), field(text.value, value, "", { name: "value" }),
    h("div", { class: "input-ends" }, h("label", { class: "inline" }, secret, text.secret), button(words.remove.button, () => leave(row), { small: true, plain: true })), note);
  return row;
}

function declaredRow({ key, sensitive, default: usual, description }, known) {
  const secret = h("input", { type: "checkbox", checked: known.secret ?? sensitive, onchange: () => (value.type = secret.checked ? "password" : "text") });
  const value = valueInput({ ...known, secret: secret.checked });
  value.placeholder ||= usual ?? "";
  const isNeeded = usual === null && !sensitive;
  const labelled = field([h("code", {}, key), isNeeded && h("span", { class: "muted" }, ` (${text.required})`)], value, description || "", { name: "value" });
  return {
    key: () => key,
    value: () => ({ value: value.value, secret: secret.checked, isKept: known.isKept }),
    read: () => (value.value || known.isKept ? sent(key, value, secret.checked, known.isKept) : null),
    node: h("div", { class: "input-row declared" }, labelled, h("div", { class: "input-ends" }, h("label", { class: "inline" }, secret, text.secret))),
  };
}

function pathsField(paths) {
  const input = h("textarea", { rows: 2, class: "code", value: paths.join("\n"), placeholder: "production.tfvars", spellcheck: "false", oninput: touch });
  return { node: field(text.files, input, text.filesHelp, { name: "tf_var_file_paths" }), read: () => input.value.split("\n").map((line) => line.trim()).filter(Boolean) };
}

function filesChoice(files, chosen) {
  const all = [...files, ...chosen.filter((path) => !files.some(({ source }) => source === path)).map((source) => ({ source, variables: {} }))];
  const boxes = all.map(({ source, variables }) => [source, Object.keys(variables), h("input", { type: "checkbox", checked: chosen.includes(source) })]);
  return {
    node: h("fieldset", { class: "field", "data-field": "tf_var_file_paths" }, h("legend", {}, text.files), h("div", { class: "checks" }, boxes.map(([source, names, box]) =>
      h("label", {}, box, " ", h("code", {}, source), names.length > 0 && h("span", { class: "muted" }, ` ${text.sets(names.join(", "))}`)))), h("p", { class: "help" }, prose(text.useFiles))),
    read: () => boxes.filter(([, , box]) => box.checked).map(([source]) => source),
  };
}

export function edit({ service }) {
  const editor = inputsEditor(service.terraform_variables_source);
  const before = editor.read();
  const look = async () => editor.show(await readModule(service.terraform_files_source.git_repository));
  const changes = () => (differs(editor.read(), before) ? { terraform_variables_source: editor.read() } : {});
  return { title: text.title, about: text.about, changes, node: h("div", {}, h("div", { class: "field" }, button(modules.source.look, look, { small: true, icon: "search", needs: needsOfReading() })), editor.node) };
}
