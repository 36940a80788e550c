// Nodes are made from plain descriptions, and text is always text: nothing of the data is read as HTML.

const SVG = "http://www.w3.org/2000/svg";

/** Makes an element. `props`: attributes; names that begin with `on` are handlers; `key` keeps its identity. */
export function h(tag, props, ...children) {
  return build(document.createElement(tag), props, children);
}

/** Makes an element of a drawing. */
export function svg(tag, props, ...children) {
  return build(document.createElementNS(SVG, tag), props, children);
}

function build(node, props, children) {
  node.handlers = {};
  for (const [name, value] of Object.entries(props || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) listen(node, name.slice(2), value);
    else if (name === "key") node.key = String(value);
    else if (name === "value" || name === "checked" || name === "indeterminate") node[name] = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
  append(node, children);
  return node;
}

function append(node, children) {
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false || child === "") continue;
    node.append(child instanceof Node ? child : seen(textOf(child)));
  }
}

/** A text of any value: in JSON of a program, an object without `toString` may stand in the place of a text. */
export const textOf = (value) => (typeof value === "object" ? JSON.stringify(value) : String(value));

/** A text in which signs that show what follows in another order are seen: another text would be copied than is read. */
export const seen = (text) => text.replace(/[\u202a-\u202e\u2066-\u2069]/g, (sign) => `\\u${sign.charCodeAt(0).toString(16)}`);

// One listener for each kind of event calls the present handler, so that `morph` can exchange handlers.
function listen(node, kind, handler) {
  if (!(kind in node.handlers)) node.addEventListener(kind, (event) => node.handlers[kind]?.(event));
  node.handlers[kind] = handler;
}

/** Changes `old` until it looks like `fresh`, and keeps what did not change: focus, selection and scrolling. */
export function morph(old, fresh) {
  if (old === fresh) return old;
  if (!isSame(old, fresh)) {
    old.replaceWith(fresh);
    return fresh;
  }
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return old;
  }
  for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name) && !isKept(old, name)) old.removeAttribute(name);
  for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value && !isKept(old, name)) old.setAttribute(name, value);
  for (const kind of Object.keys(old.handlers || {})) if (!fresh.handlers?.[kind]) old.handlers[kind] = undefined;
  for (const [kind, handler] of Object.entries(fresh.handlers || {})) listen(old, kind, handler);
  // Typed text stays; a field that was not touched follows the state.
  if ("value" in fresh && old !== document.activeElement && old.value !== fresh.value && !old.touched) old.value = fresh.value;
  if ("checked" in fresh && !old.touched) old.checked = fresh.checked;
  old.own = fresh.own;
  if (!old.own) morphChildren(old, fresh);
  return old;
}

/** A place for a node that lives longer than one drawing, such as a form: `settle` puts it there. */
export function own(node) {
  const place = h("div", { class: "own", "data-own": true });
  place.own = node;
  return place;
}

/** Puts the nodes of `own` into their places. One that is there already is not moved. Boxes with `data-end` stay at their end. */
export function settle(root) {
  for (const box of root.querySelectorAll("[data-end]")) {
    if (box.end === undefined || box.scrollTop + box.clientHeight >= box.end - 4) box.scrollTop = box.scrollHeight; // Otherwise the reader has scrolled up.
    box.end = box.scrollHeight;
  }
  for (const place of root.querySelectorAll("[data-own]")) {
    if (place.own && place.firstChild !== place.own) place.replaceChildren(place.own);
  }
}

/** Text of the API, in which commands and names stand between backticks. */
export function prose(text) {
  return String(text).split("`").map((part, index) => (index % 2 ? h("code", {}, part) : part));
}

// An opened `details` belongs to the reader, and a button is busy until its action ends.
function isKept(node, name) {
  return name === "aria-busy" || name === "open" && (node.tagName === "DETAILS" || node.tagName === "DIALOG");
}

function isSame(old, fresh) {
  return old.nodeType === fresh.nodeType && old.nodeName === fresh.nodeName && old.key === fresh.key;
}

function morphChildren(old, fresh) {
  const keyed = new Map([...old.childNodes].filter((node) => node.key !== undefined).map((node) => [node.key, node]));
  let place = old.firstChild;
  for (const wanted of [...fresh.childNodes]) {
    const known = wanted.key === undefined ? place : keyed.get(wanted.key);
    if (known && isSame(known, wanted) && known.parentNode === old) {
      if (known === place) place = place.nextSibling;
      else old.insertBefore(known, place);
      morph(known, wanted);
    } else {
      old.insertBefore(wanted, place);
    }
  }
  while (place) {
    const next = place.nextSibling;
    place.remove();
    place = next;
  }
}

/** Replaces what is in a node. */
export function fill(node, ...children) {
  node.replaceChildren();
  append(node, children);
  return node;
}

/** Saves a file as a download. */
export function saveFile(blob, name) {
  const url = URL.createObjectURL(blob);
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

/** Tells those who cannot see the page. */
export function announce(text) {
  document.getElementById("live").textContent = text;
}
