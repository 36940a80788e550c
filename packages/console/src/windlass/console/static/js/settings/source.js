// Where the code comes from: a repository with its branch, and whether a push deploys it.

import { api } from "../api.js";
import { fill, h, prose } from "../dom.js";
import { field } from "../parts.js";
import { reference } from "../references.js";
import { inOrganization } from "../rights.js";
import { words } from "../words.js";
import { forms } from "../words_of_settings.js";
import { differs, segments } from "./part.js";
import { pushWebhook } from "./push_webhook.js";

const text = words.settings.source;
const PUSHED = "windlass://push";

export const fields = ["git_repository", "source", "root_path", "auto_deploy", "watch_paths", "auto_preview"];

export function edit({ document, schema, service }) {
  const repository = service.git_repository || {};
  const before = repository.url === PUSHED ? "PUSH" : service.source || "GIT";
  let source = before;
  const touch = (event) => (event.target.touched = true);
  const input = (value, props = {}) => h("input", { value: value || "", autocomplete: "off", spellcheck: "false", oninput: touch, ...props });
  const url = input(before === "PUSH" ? "" : repository.url, { placeholder: "https://github.com/acme/shop.git" });
  const branches = h("datalist", { id: "branches-of-settings" });
  const branch = input(repository.branch, { placeholder: words.newService.defaultBranch, list: branches.id, onfocus: () => offer() });
  const root = input(repository.root_path, { placeholder: "/" });
  const folder = input(service.root_path, { placeholder: "/" });
  const token = reference(document, "gitToken", repository.git_token_id || "");
  const automatic = h("input", { type: "checkbox", role: "switch", checked: Boolean(service.auto_deploy) });
  const previews = schema.properties.auto_preview && h("input", { type: "checkbox", role: "switch", checked: Boolean(service.auto_preview) });
  const paths = h("textarea", { rows: 3, value: (service.watch_paths || []).join("\n"), placeholder: "web\ndocs/*.md", spellcheck: "false", oninput: touch });

  let offered = "";
  const offer = async () => {
    if (source === "PUSH") return;
    const wanted = { url: url.value.trim(), git_token_id: token?.read() || undefined };
    if (!wanted.url || offered === JSON.stringify(wanted)) return;
    offered = JSON.stringify(wanted);
    const { results } = await api.post(inOrganization("branches"), { git_repository: wanted }).catch(() => ({ results: [] })); // It can be typed.
    fill(branches, results.map(({ name }) => h("option", { value: name })));
  };

  const watch = field(text.paths, paths, text.pathsHelp, { name: "watch_paths" });
  const address = field(text.url, url, "", { name: "url" });
  const secret = token && field(text.token, token.input, "", { name: "git_token_id" });
  const pushHelp = h("p", { class: "muted" }, prose(text.pushHelp));
  const ofGit = h("div", { "data-field": "git_repository" },
    pushHelp, address,
    h("div", { class: "line" }, field(text.branch, branch, "", { name: "branch" }), branches, field(text.root, root, "", { name: "root_path" }), secret));
  const ofFolder = h("div", {}, h("p", { class: "muted" }, text.uploadHelp), field(text.root, folder, "", { name: "root_path" }));
  const hasWebhook = before === "GIT" && repository.url && document.at("GET", "/service/{service_id}/gitWebhookStatus");
  const webhook = hasWebhook && pushWebhook(service.id);
  const push = h("div", {}, field(text.automatic, automatic, text.automaticHelp, { isSwitch: true, name: "auto_deploy" }), watch, previews && field(forms.source.previews, previews, forms.source.previewsHelp, { isSwitch: true, name: "auto_preview" }), webhook);
  const show = () => {
    [ofGit.hidden, push.hidden, ofFolder.hidden] = [source === "UPLOAD", source !== "GIT", source !== "UPLOAD"];
    [pushHelp.hidden, address.hidden] = [source !== "PUSH", source === "PUSH"];
    if (secret) secret.hidden = source === "PUSH";
    watch.hidden = !automatic.checked;
  };
  automatic.addEventListener("change", show);
  show();

  const changes = () => {
    const found = {};
    const kept = source === "UPLOAD" ? "UPLOAD" : "GIT";
    if (kept !== (service.source || "GIT")) found.source = kept;
    if (source === "UPLOAD") return differs(folder.value, service.root_path || "") ? { ...found, root_path: folder.value || null } : found;
    const isPush = source === "PUSH";
    const given = { url: isPush ? PUSHED : url.value.trim(), branch: branch.value.trim() || null, root_path: root.value.trim() || "/", git_token_id: isPush ? null : token ? token.read() ?? null : repository.git_token_id ?? null };
    const changed = Object.fromEntries(Object.entries(given).filter(([name, value]) => differs(value, name === "root_path" ? repository.root_path || "/" : repository[name])));
    if (Object.keys(changed).length) found.git_repository = service.git_repository ? changed : given;
    if (automatic.checked !== Boolean(service.auto_deploy)) found.auto_deploy = automatic.checked;
    if (previews && previews.checked !== Boolean(service.auto_preview)) found.auto_preview = previews.checked;
    const watched = paths.value.split("\n").map((line) => line.trim()).filter(Boolean);
    if (differs(watched, service.watch_paths || [])) found.watch_paths = watched;
    return found;
  };
  const kinds = segments(text.title, [["GIT", text.git], ["PUSH", text.push], ["UPLOAD", text.upload]], source, (value) => ((source = value), show()));
  return { title: text.title, node: h("div", {}, kinds, ofGit, ofFolder, push), changes };
}
