// Signing in: a button for each provider, e-mail and password, the link explained, or an API token.

import { api, beginSignIn, keepKey } from "../api.js";
import { fill, h, prose } from "../dom.js";
import { logo } from "../icons.js";
import { button, code, errorText, field } from "../parts.js";
import { canUsePasskeys, usePasskey } from "../passkeys.js";
import { codeField, passkeyPart, setupPart, showRecoveryCodes } from "../second_factor.js";
import { people } from "../words_of_people.js";
import { words } from "../words.js";

const text = words.signIn;

export async function drawSignIn(app, { problem, done }) {
  const trouble = h("p", { class: "trouble", role: "alert" }, prose(problem || ""));
  const told = h("p", { role: "status", class: "muted" });
  const providers = h("div", { class: "providers" });
  const withPassword = h("div", {});
  const token = h("input", { type: "password", autocomplete: "off", spellcheck: "false", "aria-label": text.token, placeholder: "wdl_…" });
  const attempt = async (run) => {
    fill(trouble);
    fill(told);
    try {
      await run();
    } catch (error) {
      fill(trouble, prose(errorText(error)));
    }
  };
  const withToken = () => attempt(async () => {
    keepKey((await api.quietly("POST", "/account/browserSession", {}, token.value.trim())).page_key);
    token.value = "";
    await done();
  });
  const other = h("div", {},
    h("section", { class: "panel" },
      h("h2", {}, text.withLink), h("p", {}, text.linkExplained), code("windlass console")),
    h("details", { class: "panel" },
      h("summary", {}, text.withToken),
      h("p", { class: "muted" }, text.tokenExplained),
      h("form", { class: "line", onsubmit: (event) => (event.preventDefault(), withToken()) }, token, button(text.button, withToken, { main: true }))));
  const isInvited = location.pathname.includes("/invitation/");
  const invited = h("p", {}, isInvited && text.invited);
  app.removeAttribute("aria-busy");
  delete app.dataset.org;
  fill(app, h("main", { class: "sign-in" },
    h("div", { class: "brand large" }, h("span", { class: "mark", "aria-hidden": "true" }, "W"), h("h1", { tabindex: "-1" }, text.title)),
    invited, trouble, told, providers, withPassword, other));
  document.title = `${text.title} · Windlass`;
  try {
    const ways = await api.quietly("GET", "/account/signInProvider");
    fill(providers, ways.results.map((provider) => h("a", { class: "button main wide", href: `/account/signInProvider/${provider.name}/start`, target: "_self", onclick: beginSignIn }, logo(provider.name), text.with(provider.title))));
    if (!ways.password) return;
    if (isInvited) fill(invited, people.signIn.invited);
    fill(withPassword, passwordForm({ ways, attempt, told, done }));
  } catch (error) {
    fill(trouble, prose(errorText(error)));
  }
}

function passwordForm({ ways, attempt, told, done }) {
  const { signIn } = people;
  const email = h("input", { type: "email", name: "email", autocomplete: "username", required: true });
  const password = h("input", { type: "password", name: "password", autocomplete: "current-password", required: true });
  const second = h("div", {});
  let factor;
  const run = (passkey) => attempt(async () => {
    if (!form.reportValidity()) return;
    const sent = { email: email.value.trim(), password: password.value, second_factor: passkey ? "" : factor?.input.value.trim(), passkey: passkey && (await usePasskey(passkey)) };
    await finish(await api.quietly("POST", "/account/browserSession", sent));
  });
  const withPasskey = () => attempt(async () => {
    const passkey = await usePasskey(await api.quietly("POST", "/account/passkeyChallenge"));
    await finish(await api.quietly("POST", "/account/browserSession", { passkey }));
  });
  const finish = async (answer) => {
    if (answer.next) return askForCode(answer);
    keepKey(answer.page_key);
    password.value = "";
    if (answer.recovery_codes) await showRecoveryCodes(answer.recovery_codes);
    await done();
  };
  const askForCode = ({ setup, passkey }) => {
    factor = codeField();
    const about = passkey && canUsePasskeys(ways) ? passkeyPart(() => run(passkey)) : h("p", { class: "muted" }, people.factor.lost);
    fill(second, setup ? [h("p", {}, people.factor.setup), setupPart(setup)] : about, factor.node);
    fill(alone);
    factor.input.focus();
  };
  const alone = h("span", {});
  const begin = () => {
    fill(second, (factor = undefined));
    fill(alone, canUsePasskeys(ways) && button(people.passkey.signIn, withPasskey));
  };
  for (const input of [email, password]) input.addEventListener("input", begin);
  begin();
  const askForMail = () => attempt(async () => {
    if (!email.reportValidity()) return;
    await api.quietly("POST", "/account/passwordReset", { email: email.value.trim() });
    fill(told, signIn.sent);
  });
  const form = h("form", { class: "panel", novalidate: true, onsubmit: (event) => (event.preventDefault(), run()) },
    field(signIn.email, email), field(signIn.password, password), second,
    h("div", { class: "actions" }, h("button", { type: "submit", class: "button main" }, text.button), alone));
  const forgotten = h("details", { class: "panel" }, h("summary", {}, signIn.forgot),
    ways.password_reset ? [h("p", { class: "muted" }, signIn.forgotMail), button(signIn.send, askForMail)] : [h("p", { class: "muted" }, signIn.forgotAdmin), code("windlass user reset EMAIL")]);
  return [form, forgotten];
}
