// Streams of the server, read with fetch because each request carries the key of the page. A stream that breaks is
// continued after its last event. The tabs of a browser share one stream of each path.

import { endSession, headers, refusalIn } from "./api.js";
import { seenTime, takeTurn, untilSeen } from "./turns.js";
import { lookForUpgrade } from "./version.js";
import { words } from "./words.js";

const LONGEST_WAIT = 15000;
const SILENCE = 45000;
const AT_ONCE = 200;
const SOON = 1500;
const SELDOM = 7; // of these
const GONE = [403, 404];

/**
 * Follows a stream until the returned function is called. `handlers`: event(data), state(isLive, since, why), gone(message): some
 * events that were missed are no longer kept, ended(refusal): there is nothing more to follow, because the stream has ended or is refused.
 */
export function follow(path, { event, state = () => {}, gone = () => {}, ended = () => {} }) {
  const ending = new AbortController();
  run(path, { event, state, gone, ended }, ending.signal);
  return () => ending.abort();
}

async function run(path, handlers, signal) {
  const reading = { last: "", wait: 500, seen: Date.now() };
  let late = null; // A page whose turn comes soon is not called old.
  const state = (...values) => (clearTimeout(late), handlers.state(...values));
  while (!signal.aborted) {
    const turn = await takeTurn(signal);
    let why = "";
    const outcome = await readOnce(path, { ...handlers, state }, reading, turn.signal).catch((error) => void (why = error.why));
    const isOver = turn.signal.aborted; // others want to read, or the page is hidden
    turn.abort();
    if (signal.aborted) return;
    if (outcome) return outcome();
    if (isOver) {
      await untilSeen(signal);
      late = setTimeout(state, SOON, false, reading.seen);
      continue;
    }
    state(false, reading.seen, why);
    await pause(reading.wait + Math.random() * reading.wait * 0.3, signal);
    reading.wait = Math.min(reading.wait * 2, LONGEST_WAIT);
  }
}

/** Reads a stream until it breaks. Returns what has to be done if it is not continued. */
async function readOnce(path, { event, state, gone, ended }, reading, signal) {
  const more = reading.last ? { "Last-Event-ID": reading.last } : {};
  const answer = await withTimeout(fetch(path, { headers: headers({ Accept: "text/event-stream", ...more }), signal }));
  if (!answer.ok) {
    const refusal = await refusalIn(answer);
    if (answer.status === 401) return () => endSession(refusal.message);
    if (GONE.includes(answer.status)) return () => ended(refusal);
    throw Object.assign(new Error(refusal.message), { why: refusal.message });
  }
  reading.seen = Date.now();
  state(true, reading.seen);
  if (reading.wait > 500) lookForUpgrade(); // The server was away.
  reading.wait = 500;
  let hasEnded = false;
  let isRead = true;
  const remarks = {
    end: () => (hasEnded = true),
    gone: ({ message }) => gone(message),
    unavailable: ({ seconds }) => ((isRead = false), state(false, (reading.seen = Date.now() - seconds * 1000), words.noDatabase)),
    available: () => ((isRead = true), state(true, Date.now())),
  };
  const hear = () => isRead && (reading.seen = Date.now());
  await read(answer.body, signal, hear, (found) => {
    if (found.id) reading.last = found.id;
    if (found.event === "message") found.data && event(JSON.parse(found.data));
    else remarks[found.event]?.(JSON.parse(found.data)); // Others are said again by the answer to the next request.
  });
  return hasEnded ? ended : null;
}

async function read(body, signal, hear, found) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  while (!signal.aborted) {
    const { done, value } = await withTimeout(reader.read(), reader);
    if (done) return;
    hear();
    text += value;
    const parts = text.split("\n\n");
    text = parts.pop();
    for (const [index, part] of parts.entries()) {
      if (index && index % AT_ONCE === 0 && !document.hidden) await nextTask(); // Clicks come between many events.
      if (signal.aborted) return;
      found(parse(part));
    }
  }
}

const nextTask = () => globalThis.scheduler?.yield?.() ?? pause(0);

// A stream that says nothing for long is dead: the server sends comments more often.
function withTimeout(reading, reader) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      reader?.cancel();
      reject(new Error("silent"));
    }, SILENCE);
    reading.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}

function parse(part) {
  const found = { id: "", event: "message", data: "" };
  for (const line of part.split("\n")) {
    const colon = line.indexOf(":");
    if (colon <= 0) continue;
    const name = line.slice(0, colon);
    const value = line.slice(colon + 1).replace(/^ /, "");
    if (name === "data") found.data += (found.data ? "\n" : "") + value;
    else if (name in found) found[name] = value;
  }
  return found;
}

export function pause(milliseconds, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal?.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
  });
}

/** Calls `read` again and again while the page is seen: soon while `isUrgent()`, otherwise seldom. Returns what ends it. */
export function whileSeen(place, read, isUrgent) {
  let isReading = false;
  let skipped = 0;
  const timer = setInterval(async () => {
    if (document.hidden || isReading || (!isUrgent() && ++skipped % SELDOM)) return;
    isReading = true;
    await read().catch((error) => GONE.includes(error.status) && place.fail(error)); // Otherwise, what is shown stays until the server answers again.
    isReading = false;
  }, SOON);
  const stop = () => clearInterval(timer);
  place.onStop(stop);
  return stop;
}

/** Follows a stream that all tabs share: a tab that is seen holds the lock, reads the stream and passes it on. */
function followShared(path, handlers) {
  if (!navigator.locks || !window.BroadcastChannel) return follow(path, handlers);
  const channel = new BroadcastChannel(`windlass:${path}`);
  const ending = new AbortController();
  const latest = {};
  let isLeader = false;
  let late = null;
  const take = (kind, values) => {
    if (kind === "state") clearTimeout(late);
    handlers[kind]?.(...values);
  };
  const pass = (kind, ...values) => {
    if (ending.signal.aborted) return; // The channel is closed.
    latest[kind] = values;
    take(kind, values);
    channel.postMessage([kind, values]);
  };
  channel.onmessage = ({ data: [kind, values] }) => {
    if (kind !== "hello") take(kind, values);
    else if (isLeader) for (const known of ["state", "event"]) latest[known] && channel.postMessage([known, latest[known]]);
  };
  channel.postMessage(["hello", []]);
  const lead = (signal) => {
    isLeader = true;
    const stop = follow(path, { event: (data) => pass("event", data), state: (...values) => pass("state", ...values), ended: () => pass("ended") });
    return aborted(signal).then(() => {
      stop();
      isLeader = false;
    });
  };
  const takePart = async () => {
    while (!ending.signal.aborted) {
      await untilSeen(ending.signal);
      const seen = seenTime(ending.signal);
      await navigator.locks.request(`windlass:${path}`, { signal: seen.signal }, () => lead(seen.signal)).catch(() => {}); // Ended before it was this tab's turn.
      const since = Date.now();
      await untilSeen(ending.signal);
      clearTimeout(late);
      if (!ending.signal.aborted) late = setTimeout(take, SOON, "state", [false, since]); // unless a tab reads
    }
  };
  takePart();
  return () => {
    clearTimeout(late);
    ending.abort();
    channel.close();
  };
}

const aborted = (signal) => new Promise((resolve) => (signal.aborted ? resolve() : signal.addEventListener("abort", resolve, { once: true })));

/**
 * Keeps the state of a page as the server has it: `state.read` is called after an event of the stream, and after the
 * stream was broken. The more a reading costs, the longer changes are collected. `isRelevant(data)` may leave events out.
 * `fromNow`: the stream does not begin with the present, which is read each time that the stream begins, also in another tab.
 */
export function refreshOnEvents(path, state, place, draw, { isRelevant = () => true, fromNow = false } = {}) {
  let timer = null;
  let isWanted = false;
  let cost = 0;
  const scheduleRead = () => {
    isWanted = true; // also while a reading is under way: what it began with may be old
    timer ||= setTimeout(run, Math.min(10000, Math.max(150, cost * 4)));
  };
  const run = async () => {
    isWanted = false;
    const began = performance.now();
    try {
      await state.read();
      cost = performance.now() - began;
      draw();
    } catch (error) {
      if (GONE.includes(error.status)) return place.fail(error);
      cost = Math.max(500, cost * 2);
      isWanted = true;
    }
    timer = null;
    if (isWanted && !place.signal.aborted) scheduleRead();
  };
  place.onStop(() => clearTimeout(timer));
  place.onStop(followShared(path, {
    event: (data) => isRelevant(data) && scheduleRead(),
    ended: scheduleRead,
    state: (isLive, since, why) => {
      if (isLive && (fromNow || !state.isLive)) scheduleRead();
      Object.assign(state, { isLive, since, why });
      draw();
    },
  }));
}
