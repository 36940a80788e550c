// Signing in: one button for each provider, or the link explained, or an API token.

import { api, beginSignIn, keepKey } from "../api.js";
import { fill, h, prose } from "../dom.js";
import { button, code, errorText } from "../parts.js";
import { words } from "../words.js";

export async function drawSignIn(app, { problem, done }) {
  const text = words.signIn;
  const trouble = h("p", { class: "trouble", role: "alert" }, prose(problem || ""));
  const providers = h("div", { class: "providers" });
  const token = h("input", { type: "password", autocomplete: "off", spellcheck: "false", "aria-label": text.token, placeholder: "wdl_…" });
  const withToken = async () => {
    try {
      keepKey((await api.quietly("POST", "/account/browserSession", {}, token.value.trim())).page_key);
      token.value = "";
      await done();
    } catch (error) {
      fill(trouble, prose(errorText(error)));
    }
  };
  app.removeAttribute("aria-busy");
  delete app.dataset.org;
  fill(app, h("main", { class: "sign-in" },
    h("div", { class: "brand large" }, h("span", { class: "mark", "aria-hidden": "true" }, "W"), h("h1", { tabindex: "-1" }, text.title)),
    location.pathname.includes("/invitation/") && h("p", {}, text.invited),
    trouble,
    providers,
    h("section", { class: "panel" },
      h("h2", {}, text.withLink), h("p", {}, text.linkExplained), code("windlass console")),
    h("details", { class: "panel" },
      h("summary", {}, text.withToken),
      h("p", { class: "muted" }, text.tokenExplained),
      h("form", { class: "line", onsubmit: (event) => (event.preventDefault(), withToken()) }, token, button(text.button, withToken, { main: true })))));
  document.title = `${text.title} · Windlass`;
  try {
    const { results } = await api.quietly("GET", "/account/signInProvider");
    fill(providers, results.map((provider) => h("a", { class: "button main wide", href: `/account/signInProvider/${provider.name}/start`, target: "_self", onclick: beginSignIn }, text.with(provider.title))));
  } catch (error) {
    fill(trouble, prose(errorText(error)));
  }
}
