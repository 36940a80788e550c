// Things are dragged by a grip, with a mouse, a pen or a finger. Buttons do the same for keys.

import { h } from "./dom.js";
import { showError } from "./parts.js";

const EDGE = 60; // Nearer to the edge of the window, the page scrolls.
const STEP = 14;
const MARKS = ["drop-before", "drop-after", "drop-in"];

/**
 * A grip of the nearest element with `data-dragged`. `kind`: it can be dropped on elements that name the kind in `data-takes`.
 * `drop(id, isAfter)` gets the `data-id` of that element, and whether the lower half was hit. `isInside`: it is put into the element.
 */
export function grip(kind, title, drop, { isInside = false } = {}) {
  return h("span", { class: "grip", "aria-hidden": "true", title, onpointerdown: (event) => event.button === 0 && drag(event, kind, drop, isInside) });
}

function drag(begun, kind, drop, isInside) {
  begun.preventDefault();
  const dragged = begun.currentTarget.closest("[data-dragged]");
  const own = dragged.closest("[data-id]");
  let over = null;
  let isAfter = false;
  const mark = (place) => {
    for (const node of document.querySelectorAll(MARKS.map((name) => `.${name}`).join())) node.classList.remove(...MARKS);
    place?.classList.add(isInside ? "drop-in" : isAfter ? "drop-after" : "drop-before");
  };
  const move = ({ clientX, clientY }) => {
    dragged.classList.add("is-dragged");
    if (clientY < EDGE) scrollBy(0, -STEP);
    if (clientY > innerHeight - EDGE) scrollBy(0, STEP);
    const found = document.elementFromPoint(clientX, clientY)?.closest(`[data-takes~="${kind}"]`);
    over = found && found !== own ? found : null;
    const box = over?.getBoundingClientRect();
    isAfter = Boolean(box) && clientY > box.top + box.height / 2;
    mark(over);
  };
  const end = (event) => {
    for (const name of ["pointermove", "pointerup", "pointercancel"]) removeEventListener(name, name === "pointermove" ? move : end);
    removeEventListener("keydown", leave, true);
    dragged.classList.remove("is-dragged");
    mark(null);
    if (event.type === "pointerup" && over) Promise.resolve(drop(over.dataset.id, isAfter)).catch(showError);
  };
  const leave = (event) => {
    if (event.key !== "Escape") return;
    event.stopPropagation();
    end(event);
  };
  addEventListener("pointermove", move);
  addEventListener("pointerup", end);
  addEventListener("pointercancel", end);
  addEventListener("keydown", leave, true);
}
