// Starts the console: finds out who is signed in, then shows the page of the address. `show` is called for each address.

import { api, hasBegunSignIn, hasKey, keepKey, whenKeyChanges, whenSignedOut } from "./api.js";
import { announce, fill, h, morph, settle } from "./dom.js";
import { forgetAllEdits, forgetEdits, mayLeave } from "./edits.js";
import { apiEquivalents } from "./equivalents.js";
import { age, keepFresh } from "./freshness.js";
import { startKeys } from "./keys.js";
import { whenSlow } from "./patience.js";
import { keepRights } from "./rights.js";
import { find } from "./routes.js";
import { drawShell } from "./shell.js";
import { button, closeDialogs, head, linkButton, showError, errorBox, say } from "./parts.js";
import { keep, recall } from "./storage.js";
import { isOfModule, isOutdated, loadUpgraded } from "./version.js";
import { words } from "./words.js";

const ORGANIZATION = "windlass.organization";
const AWAY = [0, 502, 503, 504];
const AGAIN = 10000;
const app = document.getElementById("app");
const session = { account: null, org: null };
let current = { stop: () => {} };
let shown = location.href;

/** Goes to an address of the console. */
export async function go(to, { replace } = {}) {
  if (!replace && !(await mayLeave())) return;
  const url = to.startsWith("/console") ? to : `/console${to}`;
  if (isOutdated()) {
    forgetEdits();
    return location[replace ? "replace" : "assign"](url);
  }
  history[replace ? "replaceState" : "pushState"]({}, "", url);
  return show();
}

async function show() {
  useOrganization(/^\/console\/organization\/([^/]+)/.exec(location.pathname)?.[1]);
  const { load, params } = find(location.pathname);
  const ending = new AbortController();
  const stops = [];
  const page = { stop: () => (ending.abort(), stops.forEach((stop) => stop())) };
  const fail = (error) => {
    page.stop();
    fill(main, problem(error));
    name(main);
    if (AWAY.includes(error.status)) tryLater(page);
  };
  current.stop();
  current = page;
  shown = location.href;
  forgetEdits();
  closeDialogs(); // They ask about the page before.
  const place = { account: session.account, org: session.org, params, query: new URLSearchParams(location.search), go, signal: ending.signal, chooseOrganization, belongsTo, leave, fail, onStop: (stop) => void (ending.signal.aborted ? stop() : stops.push(stop)) };
  let main = drawShell(app, place);
  const waiting = setTimeout(() => main.setAttribute("aria-busy", "true"), 150);
  try {
    const module = await load();
    const state = await module.load(place);
    if (ending.signal.aborted) return;
    const draw = () => {
      if (ending.signal.aborted) return;
      main = morph(main, h("main", { id: "main" }, state && age(state), module.render(state, place), state?.path && apiEquivalents(state.path)));
      settle(main);
    };
    place.update = draw;
    const refreshing = state?.refreshing || state?.content?.refreshing;
    if (refreshing) keepFresh(state, place, draw, refreshing);
    fill(main);
    draw();
    name(main, state);
    main.querySelector(".tabs [aria-current]")?.scrollIntoView({ inline: "nearest", block: "nearest" });
    (main.querySelector("[autofocus]") || main.querySelector("h1"))?.focus({ preventScroll: true });
    scrollTo(0, history.state?.top || 0);
    module.watch?.(state, place, draw);
  } catch (error) {
    if (ending.signal.aborted || error.name === "AbortError" || error.status === 401) return;
    if (isOfModule(error)) return await replaceModules(main);
    fail(error);
    if (!("status" in error)) throw error;
  } finally {
    clearTimeout(waiting);
    main.removeAttribute("aria-busy");
  }
}

// A module that could not be loaded is asked for again by another loading of the page only.
async function replaceModules(node) {
  if (await loadUpgraded()) return;
  fill(node, errorBox(new Error(words.upgrade.noModule), button(words.tryAgain, () => location.reload())));
}

// A page that the server could not answer for comes by itself once it can.
function tryLater(page) {
  const timer = setInterval(() => {
    if (current === page && document.hidden) return;
    clearInterval(timer);
    if (current === page) show();
  }, AGAIN);
}

function problem(error) {
  if (error.status !== 404) return errorBox(error, button(words.tryAgain, show));
  return [head(words.missing.title), errorBox(error, linkButton({ go }, "/", words.places.overview))];
}

function name(main, state) {
  const title = state?.title || main.querySelector("h1")?.textContent || "";
  document.title = title ? `${title} · Windlass` : "Windlass";
  announce(title);
}

/** Resolves with false if the present page is not left. */
async function chooseOrganization(id) {
  if (!(await mayLeave())) return false;
  forgetEdits();
  useOrganization(id);
  await go("/");
  return true;
}

// A page of another organization, such as one that a link of another person leads to, begins again with that one.
function belongsTo({ id }) {
  if (useOrganization(id)) show();
}

/** Makes an organization of the account the present one. Returns true if another one was. */
function useOrganization(id) {
  const found = session.account.organizations.find((org) => org.id === id);
  if (!found || found === session.org) return false;
  keep("localStorage", ORGANIZATION, id);
  session.org = found;
  keepRights(found);
  return true;
}

async function signIn(problem) {
  current.stop();
  closeDialogs();
  current = { stop: () => {} };
  session.account = null;
  const { drawSignIn } = await import("./pages/sign_in.js");
  drawSignIn(app, { problem, done: start });
}

// The link of an invitation, or to choose a new password.
async function choosePassword(secret) {
  current.stop();
  closeDialogs();
  current = { stop: () => {} };
  session.account = null;
  const leaveTo = () => history.replaceState({}, "", "/console/");
  const { drawPasswordLink } = await import("./pages/password_link.js");
  await drawPasswordLink(app, { secret, done: () => (leaveTo(), start()), leave: (problem) => (problem && hasKey() ? (leaveTo(), start().then(() => say(problem, { bad: true }))) : signIn(problem)) });
}

async function start() {
  // A browser may draw a page before it is opened: a link would be used up by that.
  if (document.prerendering) await new Promise((resolve) => document.addEventListener("prerenderingchange", resolve, { once: true }));
  const handed = new URLSearchParams(location.hash.slice(1));
  if (location.hash) history.replaceState({}, "", location.pathname + location.search); // secrets do not stay in the address
  if (handed.get("password")) return choosePassword(handed.get("password"));
  const hasBegun = hasBegunSignIn(); // A sign-in that was given up does not wait for the key of a link.
  if (handed.get("key") && hasBegun) keepKey(handed.get("key"));
  // A link does not replace a session: otherwise a link of another person could.
  const isNew = handed.get("code") && !(await isSignedIn());
  if (isNew) {
    try {
      keepKey((await api.quietly("POST", "/account/browserSession", { code: handed.get("code") })).page_key);
    } catch (error) {
      return signIn(error.message);
    }
  } else if (handed.get("code")) {
    say(words.signIn.already);
  }
  if (!hasKey()) return signIn(words.signIn.problems[handed.get("problem")]);
  try {
    session.account = await api.quietly("GET", "/account");
  } catch (error) {
    app.removeAttribute("aria-busy");
    if (AWAY.includes(error.status)) setTimeout(start, AGAIN);
    if (error.status !== 401 && error.status !== 403) return fill(app, h("main", {}, errorBox(error, button(words.tryAgain, start))));
    return signIn(words.signIn.problems[handed.get("problem")] || (error.status === 403 ? error.message : ""));
  }
  const chosen = recall("localStorage", ORGANIZATION);
  const { organizations } = session.account;
  session.org = organizations.find((org) => org.id === chosen) || organizations[0];
  keepRights(session.org);
  if (isNew) say(words.signIn.done(session.account.name)); // A link of another person is seen by that.
  await show();
}

const isSignedIn = async () => hasKey() && api.quietly("GET", "/account").then(() => true, () => false);

// The page, its edits and what its modules keep are of the person who was signed in: nothing of them stays for another one.
function leave(to = location.pathname + location.search) {
  current.stop();
  closeDialogs();
  forgetAllEdits();
  session.account = null;
  fill(app); // A browser keeps the page as it is now for its button Back.
  location.assign(to);
}

// Another tab has signed in or out.
async function lookWhoIsSignedIn() {
  if (!session.account) return start();
  const account = hasKey() && (await api.quietly("GET", "/account").catch(() => null));
  if (account?.id !== session.account?.id) leave();
}

whenSignedOut((why) => signIn(why || words.signIn.ended));
whenKeyChanges(lookWhoIsSignedIn);
whenSlow(() => say(words.slow, { bad: true }));
addEventListener("popstate", async () => {
  if (!session.account || /^#(code|key|password)=/.test(location.hash)) return;
  if (await mayLeave()) await show();
  else history.pushState({}, "", shown);
});
addEventListener("hashchange", () => /^#(code|key|password)=/.test(location.hash) && start());
document.addEventListener("click", (event) => {
  const anchor = event.target.closest("a");
  if (!anchor || anchor.target || event.metaKey || event.ctrlKey || event.shiftKey || event.button || anchor.origin !== location.origin) return;
  if (!anchor.pathname.startsWith("/console") || anchor.hasAttribute("download")) return;
  event.preventDefault();
  history.replaceState({ top: scrollY }, "");
  go(anchor.pathname + anchor.search);
});
addEventListener("unhandledrejection", ({ reason }) => {
  if (!isOfModule(reason)) return showError(reason);
  if (session.account) say(words.upgrade.noModule, { bad: true, action: button(words.upgrade.load, () => location.reload(), { small: true }) });
  else replaceModules(app);
});

startKeys(session, go);
start();
