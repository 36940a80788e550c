// The link from an environment to the pull request that it is the preview of.

import { h } from "./dom.js";
import { outside } from "./parts.js";
import { words } from "./words.js";

const text = words.previews;

/** What an environment is the preview of; null for others. */
export function previewOf({ preview }) {
  if (!preview) return null;
  return [" ", preview.url ? outside(preview.url, text.pullRequest(preview.pull_request)) : h("span", { class: "muted" }, text.preview)];
}
