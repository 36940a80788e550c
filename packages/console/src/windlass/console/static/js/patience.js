// A server may take a request and never answer. The person is told after a while; later the request is given up.

import { words } from "./words.js";

const LONG = 20000;
const MOST = 100000; // The server itself waits for a registry of images for 90 seconds.
const KEPT = 600000;
const NO_ANSWER = ["TimeoutError", "TypeError"]; // The latter: the connection broke.
const OF_PROXIES = [502, 504];
const unanswered = new Map();
let slow = () => {};

/** Calls `handler` when a request has had no answer for long. */
export function whenSlow(handler) {
  slow = handler;
}

/** Runs a request with a signal that ends it after a while, or with `signal`. */
export async function withPatience(run, signal) {
  const ending = new AbortController();
  const pass = () => ending.abort(signal.reason);
  const timers = [setTimeout(() => slow(), LONG), setTimeout(() => ending.abort(new DOMException("", "TimeoutError")), MOST)];
  if (signal?.aborted) pass();
  signal?.addEventListener("abort", pass, { once: true });
  try {
    return await run(ending.signal);
  } finally {
    timers.forEach(clearTimeout);
    signal?.removeEventListener("abort", pass);
  }
}

/** Returns the words for an error after which no one knows what the server has done; nothing for other errors. */
export function uncertainty(error, method) {
  const isAway = error.status === 0 || OF_PROXIES.includes(error.status);
  if (!isAway && !NO_ANSWER.includes(error.name)) return "";
  const text = isAway ? error.message : error.name === "TimeoutError" ? words.noAnswer : words.noServer;
  return method === "GET" ? text : `${text} ${words.mayBeDone}`;
}

/** Returns the key of a POST. Asked for again after it had no answer, it has the same one: it is done once. */
export function keyOf(request) {
  const kept = unanswered.get(request);
  return kept && Date.now() - kept.at < KEPT ? kept.key : newKey();
}

/** Notes whether a POST had an answer. */
export function noteAnswer(request, key, isUncertain) {
  if (isUncertain) unanswered.set(request, { key, at: Date.now() });
  else unanswered.delete(request);
}

function newKey() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
