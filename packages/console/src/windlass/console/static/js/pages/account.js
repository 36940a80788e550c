// The account: who is signed in, and where.

import { api, keepKey } from "../api.js";
import { h } from "../dom.js";
import { mayLeave } from "../edits.js";
import { ago, exactTime } from "../format.js";
import { button, confirm, facts, head, panel, say, table } from "../parts.js";
import { words } from "../words.js";

const text = words.account;

export async function load() {
  const state = { path: "/account", title: text.title };
  const read = async () => {
    const [account, { results }] = await Promise.all([api.get("/account"), api.get("/account/browserSession")]);
    Object.assign(state, { account, sessions: results });
  };
  await read();
  return Object.assign(state, { refreshing: { refresh: read } });
}

export function render(state, place) {
  const { account, sessions } = state;
  return [
    head(text.title, { actions: [button(text.signOut, () => signOut(place))] }),
    panel(text.who, facts([[words.columns.name, account.name], [text.kind, account.is_person ? text.person : text.token], ...account.organizations.map((org) => [org.name, [org.scopes.join(", "), org.id !== place.org.id && button(text.switchTo, () => place.chooseOrganization(org.id), { small: true })]]), [text.ends, account.expires_at && exactTime(account.expires_at)]])),
    panel(text.sessions, h("p", { class: "muted" }, text.sessionsAbout), table([
      { title: text.browser, wide: true, cell: (session) => [browserOf(session.user_agent), session.is_this_one && h("span", { class: "tag" }, text.thisOne)] },
      { title: words.columns.address, cell: (session) => session.address },
      { title: text.begun, cell: (session) => ago(session.created_at) },
      { title: text.used, cell: (session) => ago(session.last_used_at) },
      { title: "", cell: (session) => !session.is_this_one && button(text.end, () => end(state, place, session), { small: true }) },
    ], sessions, { label: text.sessions })),
  ];
}

function browserOf(agent) {
  const browser = /(Firefox|Edg|OPR|Chrome|Safari)\/(\d+)/.exec(agent);
  const system = /(Windows|Macintosh|Android|iPhone|iPad|Linux)/.exec(agent)?.[1] || "";
  const names = { Edg: "Edge", OPR: "Opera", Macintosh: "macOS" };
  return browser ? `${names[browser[1]] || browser[1]} ${browser[2]}${system && `, ${names[system] || system}`}` : agent || "–";
}

async function end(state, place, session) {
  if (!(await confirm(text.end, text.endWill, { action: text.end }))) return;
  await api.delete(`/account/browserSession/${session.id}`);
  state.sessions = (await api.get("/account/browserSession")).results;
  say(text.ended);
  place.update();
}

/** Ends the session of this browser, and leads to the page of signing in. */
export async function signOut(place, then = "/console/") {
  if (!(await mayLeave({ forGood: true }))) return;
  await api.delete("/account/browserSession/current");
  keepKey("");
  place.leave(then);
}
