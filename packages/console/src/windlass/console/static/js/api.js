// All requests to the API. The cookie identifies the session, and the key of the page proves that a page of the console asks.

import { noteTime } from "./clock.js";
import { keyOf, noteAnswer, uncertainty, withPatience } from "./patience.js";
import { keep, recall } from "./storage.js";
import { words } from "./words.js";

const KEY = "windlass.page-key";
let signedOut = () => {};
let pageKey = recall("localStorage", KEY);
let kept = pageKey; // Empty in a browser that keeps nothing.

export function keepKey(key) {
  pageKey = key;
  keep("localStorage", KEY, key);
  kept = recall("localStorage", KEY);
}

/** Calls `handler` after another tab has signed in or out: at once, or when the browser shows this page again, as with its button Back. */
export function whenKeyChanges(handler) {
  const look = () => {
    const now = recall("localStorage", KEY);
    if (now === kept) return;
    pageKey = kept = now;
    handler();
  };
  addEventListener("storage", look);
  addEventListener("pageshow", look);
}

const BEGUN = "windlass.sign-in-begun";

/** Notes that this tab has begun to sign in at a provider. */
export const beginSignIn = () => keep("sessionStorage", BEGUN, "1");

/** True once after `beginSignIn`: the key of another session, in a link of another person, is not taken. */
export function hasBegunSignIn() {
  const has = recall("sessionStorage", BEGUN) === "1";
  keep("sessionStorage", BEGUN, "");
  return has;
}

/** True if this browser was signed in; the session may have ended. */
export const hasKey = () => Boolean(pageKey);

export function whenSignedOut(handler) {
  signedOut = handler;
}

/** Leads to the page of signing in; `why`: as the server says. */
export const endSession = (why) => signedOut(why);

class ApiError extends Error {
  constructor(status, message, requestId) {
    super(message);
    this.status = status;
    this.requestId = requestId;
  }
}

/** The headers of every request. */
export function headers(more = {}) {
  return { "X-Windlass-Page-Key": pageKey, ...more };
}

/** The protocols of a websocket: it can send no headers. */
export function protocols() {
  return ["windlass", pageKey];
}

async function send(method, path, { body, tag, query, signal, quiet, token } = {}) {
  const url = query ? `${path}?${new URLSearchParams(clean(query))}` : path;
  const sent = headers(body === undefined ? {} : { "Content-Type": method === "PATCH" ? "application/merge-patch+json" : "application/json" });
  if (tag) sent["If-Match"] = tag;
  if (token) sent.Authorization = `Token ${token}`;
  const request = { method, headers: sent, body: body === undefined ? undefined : JSON.stringify(body) };
  const asked = `${url} ${request.body}`;
  if (method === "POST") sent["Idempotency-Key"] = keyOf(asked);
  let isUncertain = false;
  try {
    return await withPatience(async (ending) => read(await sendWithRetries(url, { ...request, signal: ending }), quiet), signal);
  } catch (error) {
    const text = uncertainty(error, method);
    isUncertain = Boolean(text);
    throw text ? new ApiError(error.status || 0, text, error.requestId) : error;
  } finally {
    if (method === "POST") noteAnswer(asked, sent["Idempotency-Key"], isUncertain);
  }
}

function clean(query) {
  return Object.fromEntries(Object.entries(query).filter(([, value]) => value !== undefined && value !== "" && value !== null));
}

// A POST has a key under which it is done once. The others can be repeated as they are.
async function sendWithRetries(url, request) {
  for (let attempt = 0; ; attempt++) {
    try {
      const answer = await fetch(url, request);
      if (answer.status !== 503 || attempt === 2) return answer;
    } catch (error) {
      if (request.signal.aborted) throw error;
      if (attempt === 2) throw new ApiError(0, words.noServer);
    }
    await new Promise((resolve) => setTimeout(resolve, 300 * 2 ** attempt));
  }
}

async function read(answer, quiet) {
  noteTime(answer.headers.get("date"));
  if (!answer.ok) {
    const error = await refusalIn(answer);
    if (answer.status === 401 && !quiet) endSession(error.message);
    throw error;
  }
  return { data: await dataOf(answer), tag: answer.headers.get("etag"), status: answer.status };
}

async function dataOf(answer) {
  const text = await answer.text();
  const type = answer.headers.get("content-type") || "";
  if (type.startsWith("text/plain")) return text;
  return text && type.includes("json") ? JSON.parse(text) : null;
}

/** The error of an answer, in the words of the server. */
export async function refusalIn(answer) {
  const data = await dataOf(answer).catch(() => null);
  return new ApiError(answer.status, data?.message || `${answer.status} ${answer.statusText}`, answer.headers.get("x-request-id"));
}

export const api = {
  get: async (path, query, signal) => (await send("GET", path, { query, signal })).data,
  /** The same, or null if the caller may not see it: a limited token sees nothing above its limits. */
  seen: (path, read = api.get) => read(path).catch((error) => {
    if (error.status === 403 || error.status === 404) return null;
    throw error;
  }),
  /** A resource with the tag of its version. */
  tagged: (path) => send("GET", path),
  /** A file, with the name that the server gives it. */
  file: async (path) => {
    const answer = await fetch(path, { headers: headers() });
    if (!answer.ok) throw await refusalIn(answer);
    const name = /filename="([^"]+)"/.exec(answer.headers.get("content-disposition") || "");
    return { blob: await answer.blob(), name: name?.[1] || "file" };
  },
  post: async (path, body = {}, options = {}) => (await send("POST", path, { body, ...options })).data,
  put: (path, body, tag) => send("PUT", path, { body, tag }),
  patch: (path, body, tag) => send("PATCH", path, { body, tag }),
  delete: (path, { body, query, tag } = {}) => send("DELETE", path, { body, query, tag }),
  /** The same for the page of signing in, which needs no session; with a `token`, as that. */
  quietly: async (method, path, body, token) => (await send(method, path, { body, token, quiet: true })).data,
  /** All pages of a list. */
  async all(path, query = {}) {
    const results = [];
    for (let page = 1; ; page++) {
      const answer = await api.get(path, { ...query, page, page_size: 1000 });
      results.push(...answer.results);
      if (!answer.pagination || page >= answer.pagination.total_pages) return results;
    }
  },
};
