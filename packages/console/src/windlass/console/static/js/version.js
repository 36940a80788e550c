// The version of the console. After an upgrade, the modules of an open page are of another version than those of the server.

import { button, say } from "./parts.js";
import { keep, recall } from "./storage.js";
import { words } from "./words.js";

const OWN = new URL(import.meta.url).pathname.split("/")[2];
const RELOADED = "windlass.reloaded";
const SELDOM = 10000;
let isOld = false;

/** True once the server was found to have another version: then the next page is loaded anew. */
export const isOutdated = () => isOld;

async function isServedInAnother() {
  const page = await fetch("/console", { cache: "no-cache" }).then((answer) => (answer.ok ? answer.text() : ""), () => "");
  const served = /"\/console\/([^/"]+)\/js\/main\.js"/.exec(page)?.[1];
  return Boolean(served) && served !== OWN;
}

/** Looks for an upgrade, after the server was away. The page stays: what is typed is not lost. */
export async function lookForUpgrade() {
  if (isOld || !(await isServedInAnother()) || isOld) return;
  isOld = true;
  say(words.upgrade.told, { action: button(words.upgrade.load, () => location.reload(), { small: true }), stays: true });
}

/** True for an error of a module that cannot be loaded. Each browser has its own words for it. */
export const isOfModule = (error) => error instanceof TypeError && /module/i.test(error.message);

/** Loads the page anew if its modules are gone with an upgrade. Returns false if that does not help: it did not, a moment ago. */
export async function loadUpgraded() {
  if (Date.now() - Number(recall("sessionStorage", RELOADED)) < SELDOM || !(await isServedInAnother())) return false;
  keep("sessionStorage", RELOADED, String(Date.now()));
  location.reload();
  return true;
}
