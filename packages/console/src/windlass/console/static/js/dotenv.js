// Reads lines of a .env file as `windlass env import` does.

import { fieldError } from "./field_errors.js";
import { words } from "./words.js";

/** Returns pairs of key and value; throws with the number of a line that cannot be read, as an error of the `field` of a form. */
export function parseDotenv(text, field) {
  const pairs = [];
  const lines = text.replace(/\r\n?/g, "\n").split("\n");
  for (let index = 0; index < lines.length; index++) {
    const line = lines[index].trim();
    if (!line || line.startsWith("#")) continue;
    const match = /^(?:export\s+)?([A-Za-z_][A-Za-z0-9_.]*)\s*=\s*([^]*)$/.exec(line);
    if (!match) throw fieldError(field, words.dotenv.notPair(index + 1));
    let [, key, rest] = match;
    const quote = /^["'`]/.exec(rest)?.[0];
    if (quote) {
      const first = index;
      rest = rest.slice(1);
      while (closing(rest, quote) < 0) {
        if (++index >= lines.length) throw fieldError(field, words.dotenv.openQuote(first + 1));
        rest += `\n${lines[index]}`;
      }
      rest = rest.slice(0, closing(rest, quote));
      if (quote === '"') rest = rest.replace(/\\([nrt"\\$])/g, (_, letter) => ({ n: "\n", r: "\r", t: "\t" })[letter] ?? letter);
    } else {
      rest = rest.replace(/\s+#.*$/, "").trim();
    }
    pairs.push([key, rest]);
  }
  return pairs;
}

function closing(text, quote) {
  for (let index = 0; index < text.length; index++) {
    if (text[index] === "\\" && quote === '"') index++;
    else if (text[index] === quote) return index;
  }
  return -1;
}
