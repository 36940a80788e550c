// What a browser keeps for the console. A browser may refuse to keep anything: then it lasts as long as the page.

export function recall(storage, key) {
  try {
    return window[storage].getItem(key) || "";
  } catch {
    return "";
  }
}

/** Keeps a text; an empty one is forgotten. */
export function keep(storage, key, text) {
  try {
    if (text) window[storage].setItem(key, text);
    else window[storage].removeItem(key);
  } catch {
    // It lasts as long as the page.
  }
}
