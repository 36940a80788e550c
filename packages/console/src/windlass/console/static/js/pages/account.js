// The account: who is signed in, with name and password, where, and the tokens that the person has made.

import { api, keepKey } from "../api.js";
import { h } from "../dom.js";
import { mayLeave } from "../edits.js";
import { ago, exactTime } from "../format.js";
import { button, confirm, dialog, facts, field, head, link, panel, say, showError, table } from "../parts.js";
import { canUsePasskeys, createPasskey } from "../passkeys.js";
import { codeField, setupPart, showRecoveryCodes } from "../second_factor.js";
import { people } from "../words_of_people.js";
import { words } from "../words.js";

const text = words.account;
const own = people.account;
const keys = people.passkey;

export async function load() {
  const state = { path: "/account", title: text.title };
  const read = async () => {
    const [account, { results }, ways] = await Promise.all([api.get("/account"), api.get("/account/browserSession"), api.get("/account/signInProvider")]);
    Object.assign(state, { account, ways, sessions: results, tokens: account.is_person ? await tokensOf(account) : null });
  };
  await read();
  return Object.assign(state, { refreshing: { refresh: read } });
}

async function tokensOf({ name, organizations }) {
  const lists = organizations.map((org) => api.seen(`/organization/${org.id}/apiToken`, (path) => api.all(path, { creator_name: name })).then((tokens) => (tokens || []).map((token) => ({ ...token, org }))));
  return (await Promise.all(lists)).flat();
}

export function render(state, place) {
  const { account, sessions, tokens } = state;
  const { person } = account;
  return [
    head(text.title, { actions: [button(text.signOut, () => signOut(place))] }),
    panel(text.who, facts([
      [person ? own.email : words.columns.name, account.name],
      person && [own.name, [person.name, " ", button(own.change, () => rename(state, place), { small: true })]],
      person && [own.passwordAge, [ago(person.password_changed_at), " ", button(own.change, () => changePassword(state, place), { small: true })]],
      person && [own.factor, person.has_authenticator_app ? [own.factorOn, " ", button(own.factorRemove, () => removeFactor(state, place), { small: true })] : [own.factorOff, " ", button(own.factorAddShort, () => addFactor(state, place), { small: true })]],
      person && person.has_second_factor && [own.codesLeft, own.left(person.recovery_codes_left)],
      [text.kind, account.is_person ? text.person : text.token],
      ...account.organizations.map((org) => [text.organization, [`${org.name} (${org.scopes.join(", ")})`, org.id !== place.org.id && button(text.switchTo, () => place.chooseOrganization(org.id), { small: true })]]),
      [text.ends, account.expires_at && exactTime(account.expires_at)],
    ])),
    person && passkeysPanel(state, place),
    panel(text.sessions, h("p", { class: "muted" }, text.sessionsAbout), table([
      { title: text.browser, wide: true, cell: (session) => [browserOf(session.user_agent), " ", session.is_this_one && h("span", { class: "tag" }, text.thisOne)] },
      { title: words.columns.address, cell: (session) => session.address },
      { title: text.begun, cell: (session) => ago(session.created_at) },
      { title: text.used, cell: (session) => ago(session.last_used_at) },
      { title: "", cell: (session) => !session.is_this_one && button(text.end, () => end(state, place, session), { small: true }) },
    ], sessions, { label: text.sessions }), sessions.length > 2 && h("div", { class: "actions" }, button(own.endAll, () => endAll(state, place)))),
    tokens && panel(own.tokens, h("p", { class: "muted" }, own.tokensAbout), tokens.length ? table([
      { title: words.columns.name, wide: true, cell: (token) => link(`/organization/${token.org.id}/apiToken/${token.id}`, token.name) },
      { title: own.organization, cell: (token) => token.org.name },
      { title: own.scopes, cell: (token) => token.scopes.join(", ") },
      { title: own.used, cell: (token) => (token.last_used_at ? ago(token.last_used_at) : "–") },
    ], tokens, { label: own.tokens }) : h("p", {}, own.noTokens)),
  ];
}

function browserOf(agent) {
  const browser = /(Firefox|Edg|OPR|Chrome|Safari)\/(\d+)/.exec(agent);
  const system = /(Windows|Macintosh|Android|iPhone|iPad|Linux)/.exec(agent)?.[1] || "";
  const names = { Edg: "Edge", OPR: "Opera", Macintosh: "macOS" };
  return browser ? `${names[browser[1]] || browser[1]} ${browser[2]}${system && `, ${names[system] || system}`}` : agent || "–";
}

// Asks for values in a dialog, and sends them. Resolves with true if they were taken.
function ask(title, will, controls, action, send) {
  return dialog(title, (finish) => {
    const run = () => send().then(() => finish(true), showError);
    return [will && h("p", {}, will), controls, h("div", { class: "dialog-actions" }, button(words.cancel, () => finish()), button(action, run, { main: true }))];
  });
}

async function rename(state, place) {
  const name = h("input", { type: "text", autocomplete: "name", value: state.account.person.name });
  const isDone = await ask(own.nameTitle, "", field(own.name, name, "", { name: "name" }), words.save, () => api.patch("/account", { name: name.value.trim() }));
  if (!isDone) return;
  state.account = await api.get("/account");
  say(own.nameChanged);
  place.update();
}

async function changePassword(state, place) {
  const present = h("input", { type: "password", autocomplete: "current-password" });
  const fresh = h("input", { type: "password", autocomplete: "new-password" });
  const controls = [field(own.present, present, "", { name: "password" }), field(own.fresh, fresh, people.link.help, { name: "new_password" })];
  const isDone = await ask(own.passwordTitle, own.passwordWill, controls, own.change, () => api.put("/account/password", { password: present.value, new_password: fresh.value }));
  if (!isDone) return;
  await state.refreshing.refresh();
  say(own.passwordChanged);
  place.update();
}

const passwordField = (input) => field(own.present, input, "", { name: "password" });

async function addFactor(state, place) {
  const present = h("input", { type: "password", autocomplete: "current-password" });
  let setup, codes;
  if (!(await ask(own.factorAdd, "", passwordField(present), own.next, async () => (setup = await api.post("/account/secondFactor", { password: present.value }))))) return;
  const { input, node } = codeField();
  const confirmCode = async () => (codes = (await api.put("/account/secondFactor", { second_factor: input.value.trim() })).data.recovery_codes);
  if (!(await ask(own.factorAdd, people.factor.add, [setupPart(setup), node], own.confirm, confirmCode))) return;
  await showRecoveryCodes(codes);
  await state.refreshing.refresh();
  say(own.factorAdded);
  place.update();
}

async function removeFactor(state, place) {
  const present = h("input", { type: "password", autocomplete: "current-password" });
  if (!(await ask(own.factorRemoveTitle, own.factorRemoveWill, passwordField(present), own.factorRemove, () => api.delete("/account/secondFactor", { body: { password: present.value } })))) return;
  await state.refreshing.refresh();
  say(own.factorRemoved);
  place.update();
}

function passkeysPanel(state, place) {
  const { account: { person: { passkeys } }, ways } = state;
  return panel(keys.title, h("p", { class: "muted" }, keys.about),
    passkeys.length ? table([
      { title: words.columns.name, wide: true, cell: (passkey) => passkey.name },
      { title: words.columns.created, cell: (passkey) => ago(passkey.created_at) },
      { title: keys.used, cell: (passkey) => (passkey.last_used_at ? ago(passkey.last_used_at) : keys.never) },
      { title: "", cell: (passkey) => [button(keys.rename, () => renamePasskey(state, place, passkey), { small: true, plain: true }), button(keys.remove, () => removePasskey(state, place, passkey), { small: true, plain: true, danger: true })] },
    ], passkeys, { label: keys.title }) : h("p", {}, keys.none),
    canUsePasskeys(ways) ? h("div", { class: "actions" }, button(keys.add, () => addPasskey(state, place))) : ways.passkey_origin && h("p", { class: "muted" }, keys.elsewhere(ways.passkey_origin)));
}

async function addPasskey(state, place) {
  const present = h("input", { type: "password", autocomplete: "current-password" });
  const name = h("input", { type: "text", autocomplete: "off" });
  let codes;
  const run = async () => {
    const passkey = await createPasskey(await api.post("/account/passkey", { password: present.value }));
    codes = (await api.put("/account/passkey", { passkey, name: name.value.trim() })).data.recovery_codes;
  };
  if (!(await ask(keys.add, keys.addWill, [field(keys.name, name, keys.nameHelp, { name: "name" }), passwordField(present)], keys.next, run))) return;
  if (codes.length) await showRecoveryCodes(codes);
  await state.refreshing.refresh();
  say(keys.added);
  place.update();
}

async function renamePasskey(state, place, { id, name }) {
  const input = h("input", { type: "text", autocomplete: "off", value: name });
  if (!(await ask(keys.rename, "", field(keys.name, input, keys.nameHelp, { name: "name" }), keys.save, () => api.patch(`/account/passkey/${id}`, { name: input.value.trim() })))) return;
  await state.refreshing.refresh();
  say(keys.renamed);
  place.update();
}

async function removePasskey(state, place, { id, name }) {
  const present = h("input", { type: "password", autocomplete: "current-password" });
  if (!(await ask(keys.removeTitle(name), keys.removeWill, passwordField(present), keys.remove, () => api.delete(`/account/passkey/${id}`, { body: { password: present.value } })))) return;
  await state.refreshing.refresh();
  say(keys.removed);
  place.update();
}

async function end(state, place, session) {
  if (!(await confirm(text.end, text.endWill, { action: text.end }))) return;
  await api.delete(`/account/browserSession/${session.id}`);
  await updateSessions(state, place, text.ended);
}

async function endAll(state, place) {
  if (!(await confirm(own.endAll, own.endAllWill, { action: own.endAll }))) return;
  await api.delete("/account/browserSession");
  await updateSessions(state, place, own.endedAll);
}

async function updateSessions(state, place, told) {
  state.sessions = (await api.get("/account/browserSession")).results;
  say(told);
  place.update();
}

/** Ends the session of this browser, and leads to the page of signing in. */
export async function signOut(place, then = "/console/") {
  if (!(await mayLeave({ forGood: true }))) return;
  await api.delete("/account/browserSession/current");
  keepKey("");
  place.leave(then);
}
