// A link to choose a password: of an invitation, or because the former one is forgotten.

import { api, hasKey, keepKey } from "../api.js";
import { fill, h, prose } from "../dom.js";
import { button, errorText, field } from "../parts.js";
import { usePasskey } from "../passkeys.js";
import { codeField, passkeyPart } from "../second_factor.js";
import { people } from "../words_of_people.js";

const text = people.link;

/** Draws the page of a link. `done` is called when the person is signed in, and `leave` to go to the page of signing in. */
export async function drawPasswordLink(app, { secret, done, leave }) {
  app.removeAttribute("aria-busy");
  delete app.dataset.org;
  const page = h("main", { class: "sign-in" });
  fill(app, page);
  let link;
  try {
    link = await api.quietly("POST", "/account/passwordLink", { code: secret });
  } catch (error) {
    return leave(errorText(error));
  }
  const account = hasKey() && (await api.quietly("GET", "/account").catch(() => null));
  const isInvitation = link.purpose === "INVITATION";
  const title = isInvitation ? text.invitation(link.organization_name) : text.reset;
  const trouble = h("p", { class: "trouble", role: "alert" });
  const name = h("input", { type: "text", autocomplete: "name", value: link.name });
  const password = h("input", { type: "password", name: "password", autocomplete: link.has_password ? "current-password" : "new-password", required: true });
  const second = h("div", {});
  const others = h("input", { type: "checkbox" });
  let factor;
  const run = async (passkey) => {
    fill(trouble);
    try {
      const proof = passkey ? { passkey: await usePasskey(passkey) } : { second_factor: factor?.input.value.trim() };
      const answer = await api.quietly("PUT", "/account/passwordLink", { code: secret, password: password.value, name: name.value.trim(), remove_passkeys: others.checked, ...proof });
      if (answer.next === "SIGN_IN") return leave(text.signInNow);
      if (answer.next) {
        factor = codeField();
        const removal = answer.passkey && !isInvitation && h("label", { class: "inline" }, others, text.removeOthers);
        fill(second, answer.passkey ? passkeyPart(() => run(answer.passkey)) : h("p", { class: "muted" }, people.factor.lost), factor.node, removal);
        return factor.input.focus();
      }
      keepKey(answer.page_key);
      password.value = "";
    } catch (error) {
      return fill(trouble, prose(errorText(error).replace(/^password: /, `${text.password} `)));
    }
    await done();
  };
  fill(page,
    h("div", { class: "brand large" }, h("span", { class: "mark", "aria-hidden": "true" }, "W"), h("h1", { tabindex: "-1" }, title)),
    h("p", {}, isInvitation ? text.role(link.email, link.role_name) : text.whom(link.email)),
    account && h("p", { class: "muted" }, text.replaces(account.name)),
    trouble,
    h("form", { class: "panel", onsubmit: (event) => (event.preventDefault(), run()) },
      // The address is for the password manager of the browser.
      h("input", { type: "email", name: "email", autocomplete: "username", value: link.email, readonly: true, hidden: true }),
      link.has_password && h("p", {}, text.present),
      isInvitation && !link.has_password && field(text.name, name),
      field(text.password, password, link.has_password ? "" : text.help),
      second,
      !isInvitation && h("p", { class: "muted" }, text.signsOut),
      h("div", { class: "actions" }, h("button", { type: "submit", class: "button main" }, isInvitation ? text.join : text.save), button(text.toSignIn, () => leave(), { plain: true }))));
  document.title = `${title} · Windlass`;
  page.querySelector("h1").focus({ preventScroll: true });
}
