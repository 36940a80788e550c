// Members and their roles as a matrix, and the invitations that wait.

import { api } from "../api.js";
import { loadDocument } from "../document.js";
import { h, prose } from "../dom.js";
import { ago } from "../format.js";
import { button, code, codeBlock, confirm, showError, dialog, empty, facts, field, head, menu, panel, say, table, copyButton } from "../parts.js";
import { refusalOf } from "../rights.js";
import { crumbs } from "../shell.js";
import { fieldError } from "../field_errors.js";
import { people } from "../words_of_people.js";
import { organizationTexts } from "../words_of_organization.js";
import { words } from "../words.js";

const text = words.members;
const links = people.members;
const list = organizationTexts.members;

// From the fewest rights to all of them; roles of other names stand between.
const RANKS = ["Read", "Deploy", "Write"];
const rank = ({ name }) => (name === "Admin" ? RANKS.length + 1 : RANKS.indexOf(name) < 0 ? RANKS.length : RANKS.indexOf(name));

export async function load({ params }) {
  const base = `/${params.parent}/${params.parentId}`;
  const state = { base, path: `${base}/member`, title: text.title };
  state.read = async () => {
    const [organization, members, invitations, roles, ways] = await Promise.all([api.get(base), api.all(`${base}/member`), api.all(`${base}/inviteMember`), api.all(`${base}/availableRole`), api.get("/account/signInProvider")]);
    Object.assign(state, { organization, members, invitations, roles: roles.sort((one, other) => rank(one) - rank(other)), ways });
  };
  state.refreshing = { refresh: state.read };
  await Promise.all([state.read(), loadDocument()]);
  return state;
}

export function render(state, place) {
  const { members, invitations, roles, base, organization, ways } = state;
  const refusal = refusalOf(["PUT", `${base}/member`]);
  return [
    crumbs([organization.name, base], [text.title]),
    head(text.title, { about: text.about, actions: [button(text.invite, () => invite(state, place), { main: true, needs: ["POST", `${base}/inviteMember`] })] }),
    !ways.can_invite && h("section", { class: "panel pending" }, h("p", {}, prose(links.cannot))),
    members.length ? table([
      { title: words.columns.name, wide: true, cell: (member) => [h("strong", {}, member.name || member.nickname || member.email), member.email === place.account?.name && [" ", h("span", { class: "tag" }, list.you)], member.name && h("p", { class: "muted" }, member.email)] },
      { title: list.role, cell: (member) => roleChoice(state, place, member, refusal) },
      { title: list.seen, cell: (member) => ago(member.last_activity_at, { none: list.never }) },
      { title: text.since, cell: (member) => ago(member.created_at) },
      { title: "", kind: "number", cell: (member) => menu(ways.password ? links.help(member.email) : words.more, [
        ways.password && button(links.resetButton, () => resetPassword(state, member), { plain: true, needs: ["POST", `${base}/member/passwordReset`] }),
        ways.password && button(links.factorButton, () => removeFactor(member, state), { plain: true, needs: ["POST", `${base}/member/secondFactorReset`] }),
        button(list.remove, () => remove(state, place, member), { plain: true, danger: true, needs: ["DELETE", `${base}/member`] }),
      ]) },
    ], members, { label: text.title }) : empty(text.empty, button(text.invite, () => invite(state, place), { main: true, needs: ["POST", `${base}/inviteMember`] })),
    invitations.length > 0 && panel(text.invitations, table([
      { title: text.email, wide: true, cell: (invitation) => [invitation.email, invitation.invitation_status === "EXPIRED" && [" ", h("span", { class: "tag" }, list.expired)]] },
      { title: text.role, cell: (invitation) => invitation.role_name },
      { title: text.link, cell: (invitation) => (ways.password ? button(links.newLink, () => newLink(state, invitation), { small: true, plain: true, needs: ["POST", `${base}/inviteMember/${invitation.id}/link`] }) : copyButton(invitation.invitation_link, text.copyLink)) },
      { title: list.invitedBy, cell: (invitation) => [invitation.inviter, " ", h("span", { class: "muted" }, ago(invitation.created_at))] },
      { title: "", cell: (invitation) => button(text.withdraw, () => withdraw(state, place, invitation), { small: true, plain: true, needs: ["DELETE", `${base}/inviteMember/${invitation.id}`] }) },
    ], invitations, { label: text.invitations })),
    panel(list.roles, facts(roles.map((role) => [role.name, h("span", { class: "muted" }, role.description)]))),
    !refusal && providersPanel(ways),
  ];
}

// The callback addresses, which are entered at the providers before the settings can name the client.
function providersPanel({ results, further }) {
  const { providers } = people;
  const rows = [...results.map((provider) => ({ ...provider, isOn: true })), ...further];
  return h("details", { class: "panel" }, h("summary", {}, list.providers(results.map(({ title }) => title))), h("p", { class: "muted" }, prose(providers.about)), table([
    { title: providers.provider, cell: (provider) => h("strong", {}, provider.title) },
    { title: providers.callback, wide: true, cell: (provider) => code(provider.callback_url) },
    { title: providers.state, cell: (provider) => (provider.isOn ? providers.isOn : button(providers.how, () => showLines(provider), { small: true, plain: true })) },
  ], rows, { label: providers.title, key: (provider) => provider.name }));
}

const showLines = ({ name, title }) => dialog(people.providers.settings(title), (finish) => [
  h("p", {}, prose(people.providers.saved)), codeBlock(people.providers.lines(name)),
  h("div", { class: "dialog-actions" }, button(words.done, () => finish(), { main: true }))]);

function roleChoice(state, place, member, refusal) {
  const choose = (event) => change(state, place, member, state.roles.find(({ id }) => id === event.target.value)).finally(() => (event.target.value = state.members.find(({ id }) => id === member.id)?.role_id));
  return h("select", { "aria-label": list.roleOf(member.email), disabled: Boolean(refusal), title: refusal, onchange: choose }, state.roles.map((role) => h("option", { value: role.id, selected: role.id === member.role_id, title: role.description }, role.name)));
}

async function change(state, place, member, role) {
  const ok = await confirm(text.changeTitle(member.email), text.changeWill(role.name, role.description), { action: text.change });
  if (ok) await api.put(`${state.base}/member`, { user_id: member.id, role_id: role.id }).then(() => say(text.changed(member.email, role.name)), showError);
  await state.read();
  place.update();
}

async function invite(state, place) {
  const made = await dialog(text.invite, (finish) => {
    const email = h("input", { type: "email", autocomplete: "off", required: true, placeholder: "ann@example.com" });
    const role = h("select", {}, state.roles.map((other) => h("option", { value: other.id, selected: other.name === "Deploy" }, `${other.name}: ${other.description}`)));
    const run = async () => {
      if (!email.value.trim()) throw fieldError("email", text.emailMissing);
      try {
        finish(await api.post(`${state.base}/inviteMember`, { email: email.value.trim(), role_id: role.value }));
      } catch (error) {
        showError(error);
      }
    };
    return [field(text.email, email, "", { name: "email" }), field(text.role, role, "", { name: "role_id" }), h("p", { class: "help" }, text.inviteHelp), !state.ways.can_invite && h("p", { class: "trouble" }, prose(links.cannot)),
      h("div", { class: "dialog-actions" }, button(words.cancel, () => finish()), button(text.invite, run, { main: true }))];
  });
  if (!made) return;
  await state.read();
  place.update();
  await showLink(text.invited(made.email), state.ways.password ? links.linkOnce : links.linkPlain, made.invitation_link);
}

const showLink = (title, about, url) => dialog(title, (finish) => [h("p", {}, about), code(url), h("div", { class: "dialog-actions" }, button(words.done, () => finish(), { main: true }))]);

async function newLink(state, { id, email }) {
  const made = await api.post(`${state.base}/inviteMember/${id}/link`);
  await showLink(links.newLinkTitle(email), links.linkOnce, made.url);
}

async function removeFactor({ id, email }, { base }) {
  if (!(await confirm(links.factorTitle(email), links.factorWill, { action: links.factorButton, danger: true }))) return;
  await api.post(`${base}/member/secondFactorReset`, { user_id: id });
  say(links.factorRemoved(email));
}

async function resetPassword(state, member) {
  if (!(await confirm(links.resetTitle(member.email), links.resetWill, { action: links.resetMake }))) return;
  const made = await api.post(`${state.base}/member/passwordReset`, { user_id: member.id });
  await showLink(links.resetTitle(member.email), links.resetLink, made.url);
}

async function withdraw(state, place, invitation) {
  await api.delete(`${state.base}/inviteMember/${invitation.id}`);
  say(text.withdrawn(invitation.email));
  await state.read();
  place.update();
}

async function remove(state, place, member) {
  if (!(await confirm(text.removeTitle(member.email), text.removeWill, { action: list.remove, danger: true }))) return;
  await api.delete(`${state.base}/member`, { body: { user_id: member.id } });
  say(text.removed(member.email));
  await state.read();
  place.update();
}
