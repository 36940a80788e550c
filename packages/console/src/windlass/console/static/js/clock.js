// The time of the server, which all times of its answers are of: the clock of this computer may be wrong.

const TOLERANCE = 5000; // The header has whole seconds, and answers take a while.
let ahead = 0;

/** Takes the header `Date` of an answer. */
export function noteTime(text) {
  const difference = new Date(text || NaN) - Date.now();
  if (!isNaN(difference)) ahead = Math.abs(difference) < TOLERANCE ? 0 : difference;
}

/** Milliseconds, as `Date.now()`. */
export const now = () => Date.now() + ahead;
