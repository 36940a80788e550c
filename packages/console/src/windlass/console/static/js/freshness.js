// Pages that follow no stream say of which moment they are. They are read again every minute, and when they are seen again.

import { h } from "./dom.js";
import { clockTime } from "./format.js";
import { button, stale } from "./parts.js";
import { words } from "./words.js";

const EVERY = 60000;
const SOON = 5000;
const GONE = [403, 404];
const AWAY = [502, 503, 504];

/** Keeps a page fresh with `refresh`, which reads into its state; `every`: milliseconds. `isQuiet`: its age is told only while it cannot be read. */
export function keepFresh(state, place, draw, { refresh, every = EVERY, isQuiet = false }) {
  const fresh = (state.fresh = { at: Date.now(), isLive: true, isReading: false, isQuiet });
  fresh.read = async () => {
    if (fresh.isReading) return;
    fresh.isReading = true;
    try {
      await refresh();
      Object.assign(fresh, { at: Date.now(), isLive: true });
    } catch (error) {
      if (GONE.includes(error.status)) return place.fail(error);
      Object.assign(fresh, { isLive: false, why: AWAY.includes(error.status) ? error.message : "" });
    } finally {
      fresh.isReading = false;
    }
    draw();
  };
  const look = () => {
    // What is being asked or done is not changed meanwhile.
    if (document.hidden || document.querySelector("dialog[open], main [aria-busy]")) return;
    if (Date.now() - fresh.at >= (fresh.isLive ? every : SOON)) fresh.read();
  };
  const seen = () => !document.hidden && Date.now() - fresh.at >= SOON && fresh.read();
  const timer = setInterval(look, SOON);
  document.addEventListener("visibilitychange", seen);
  place.onStop(() => (clearInterval(timer), document.removeEventListener("visibilitychange", seen)));
}

/** The age of what a page shows, with a button that reads it again. */
export function age({ fresh, isLive }) {
  if (!fresh || isLive === false) return null; // A page with a stream says itself that this is broken.
  if (fresh.isLive && fresh.isQuiet) return null;
  if (!fresh.isLive) return stale({ isLive: false, since: fresh.at, why: fresh.why });
  return h("p", { class: "muted age" }, words.asOf, " ", h("time", { datetime: new Date(fresh.at).toISOString() }, clockTime(fresh.at)), " ", button(words.refresh, fresh.read, { small: true, plain: true }));
}
