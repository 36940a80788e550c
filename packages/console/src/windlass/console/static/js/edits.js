// Edits that are not saved yet: no page is left with them without a question.

import { confirm } from "./parts.js";
import { words } from "./words.js";

const held = new Set(); // forms of the present page
const waiting = []; // of other pages: each says whether changes wait to be saved

/** Holds a form that changes something, and returns it. */
export const hold = (form) => (held.add(form), form);

/** Forgets a form whose changes are saved; another one takes its place. */
export const release = (form) => void held.delete(form);

/** Tells of changes that stay while other pages are looked at, and are lost with the window. */
export const holdInWindow = (hasChanges) => void waiting.push(hasChanges);

/** Forgets the edits of the present page: they are saved, or there is nothing any more to save them to. */
export const forgetEdits = () => held.clear();

/** Forgets all edits, because their person has left. */
export const forgetAllEdits = () => (held.clear(), (waiting.length = 0));

export const hasEdits = () => [...document.querySelectorAll("dialog[open]")].some((dialog) => dialog.isEdited) || [...held].some((form) => form.node.isConnected && isEdited(form));

const isSomethingWaiting = () => waiting.some((hasChanges) => hasChanges());

function isEdited(form) {
  try {
    return Object.keys(form.changes()).length > 0;
  } catch {
    return true; // What is filled in cannot be read yet.
  }
}

/** Resolves with true if the page may be left; `forGood`: with all that waits to be saved. */
export async function mayLeave({ forGood } = {}) {
  return !(hasEdits() || (forGood && isSomethingWaiting())) || Boolean(await confirm(words.unsaved.title, words.unsaved.text, { action: words.unsaved.leave, danger: true }));
}

addEventListener("beforeunload", (event) => (hasEdits() || isSomethingWaiting()) && event.preventDefault());
