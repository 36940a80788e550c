// Streams take turns. Over HTTP/1.1 a browser opens six connections to a server, for all its tabs together: if streams took all of
// them, no page would load. So a page follows streams while it is seen, and few streams of a browser are read at a time.

const AT_ONCE = 3;
const TURN = 15000;
const HIDDEN = 10000; // A look at another tab ends nothing.
const NAME = "windlass:turn:";

/** Resolves once the page is seen, or `signal` is aborted. */
export function untilSeen(signal) {
  return new Promise((resolve) => {
    const look = () => {
      if (document.hidden && !signal.aborted) return;
      document.removeEventListener("visibilitychange", look);
      resolve();
    };
    document.addEventListener("visibilitychange", look);
    signal.addEventListener("abort", look, { once: true });
    look();
  });
}

/** Returns what is aborted with `signal`, and when the page has been hidden for some seconds. */
export function seenTime(signal) {
  const time = new AbortController();
  let timer = null;
  const look = () => {
    clearTimeout(timer);
    if (document.hidden) timer = setTimeout(() => time.abort(), HIDDEN);
  };
  time.signal.addEventListener("abort", () => (clearTimeout(timer), document.removeEventListener("visibilitychange", look)));
  document.addEventListener("visibilitychange", look);
  abortWith(signal, time);
  look();
  return time;
}

/** Resolves with a turn to read a stream. Its signal is aborted when the turn is over; whoever reads no more aborts it. */
export async function takeTurn(signal) {
  await untilSeen(signal);
  const turn = seenTime(signal);
  // Browsers have locks over https and on the machine itself only; HTTP/2 has no such limit of connections.
  if (navigator.locks && !/^h[23]/.test(performance.getEntriesByType("navigation")[0]?.nextHopProtocol)) await hold(turn);
  return turn;
}

async function hold(turn) {
  const name = leastWanted(await navigator.locks.query());
  await new Promise((resolve) => {
    navigator.locks.request(name, { signal: turn.signal }, () => {
      resolve();
      const timer = setInterval(async () => isWanted(name, await navigator.locks.query()) && turn.abort(), TURN);
      return new Promise((over) => abortWith(turn.signal, { abort: () => (clearInterval(timer), over()) }));
    }).catch(resolve); // It was aborted before.
  });
}

const isWanted = (name, { pending }) => pending.some((lock) => lock.name === name);

function leastWanted({ held, pending }) {
  const count = (name) => [...held, ...pending].filter((lock) => lock.name === name).length + Math.random() / 2;
  const counted = Array.from({ length: AT_ONCE }, (_, index) => NAME + index).map((name) => [count(name), name]);
  return counted.sort(([one], [other]) => one - other)[0][1];
}

function abortWith(signal, controller) {
  if (signal.aborted) controller.abort();
  else signal.addEventListener("abort", () => controller.abort(), { once: true });
}
