// Prints the names that modules use without a declaration, an import or the browser: node --expose-internals undefined_names.cjs FOLDER
const { readdirSync, readFileSync } = require("node:fs");
const { join } = require("node:path");
const { parse } = require("internal/deps/acorn/acorn/dist/acorn"); // The parser that Node.js has for its own use

const BROWSER = new Set(("AbortController Array ArrayBuffer Blob Boolean BroadcastChannel Date Error Event EventSource File FormData Headers Infinity Intl JSON Map Math MutationObserver NaN Node Number " +
  "NodeFilter Object Promise Proxy Reflect RegExp ResizeObserver Response Set String Symbol TextDecoder TextDecoderStream TextEncoder TypeError URL URLSearchParams Uint8Array WeakMap WeakSet WebSocket IntersectionObserver " +
  "addEventListener arguments atob btoa cancelAnimationFrame clearInterval clearTimeout console crypto decodeURIComponent devicePixelRatio document encodeURIComponent fetch " +
  "getComputedStyle getSelection history innerHeight innerWidth isNaN localStorage location matchMedia navigator parseFloat parseInt performance queueMicrotask removeEventListener " +
  "requestAnimationFrame requestIdleCallback scheduler scrollBy scrollTo scrollY sessionStorage setInterval setTimeout structuredClone trustedTypes undefined window globalThis").split(" "));
const isNode = (value) => value && typeof value.type === "string";
const parts = (node) => Object.values(node).flat().filter(isNode);

// The names that a pattern binds; defaults and computed keys are used, not bound.
function bound(pattern) {
  if (!pattern) return [];
  if (pattern.type === "Identifier") return [pattern.name];
  if (pattern.type === "ObjectPattern") return pattern.properties.flatMap((property) => bound(property.value || property.argument));
  if (pattern.type === "ArrayPattern") return pattern.elements.flatMap(bound);
  return bound(pattern.left || pattern.argument);
}

const isFunction = (node) => /Function/.test(node.type);

// What a block declares itself; a `var` counts where it stands, which is stricter than the language.
function declared(node) {
  const list = [node.body, node.consequent, node.init, node.left, node.cases?.flatMap((one) => one.consequent)].flat().filter(isNode).map((one) => one.declaration || one);
  const found = list.flatMap((one) => (one.type === "VariableDeclaration" ? one.declarations.flatMap(({ id }) => bound(id)) : /^(Function|Class)Declaration$/.test(one.type) ? [one.id.name] : one.type === "ImportDeclaration" ? one.specifiers.map(({ local }) => local.name) : []));
  if (isFunction(node)) found.push(...node.params.flatMap(bound));
  if ((isFunction(node) || /^Class/.test(node.type)) && node.id) found.push(node.id.name);
  if (node.type === "CatchClause") found.push(...bound(node.param));
  return found;
}

function* used(node, known) {
  const inner = new Set([...known, ...declared(node)]);
  if (node.type === "Identifier") {
    if (!inner.has(node.name) && !BROWSER.has(node.name)) yield node;
  } else if (node.type === "ImportDeclaration") {
    return;
  } else {
    const isNamed = /^(Property|MethodDefinition|PropertyDefinition)$/.test(node.type) && !node.computed; // a key is no use of a name
    const isMember = node.type === "MemberExpression" && !node.computed;
    for (const part of parts(node)) if (!(isNamed && part === node.key && part !== node.value) && !(isMember && part === node.property) && part.type !== "PrivateIdentifier") yield* used(part, inner);
  }
}

const root = process.argv[2];
const found = [];
for (const file of readdirSync(root, { recursive: true }).filter((name) => name.endsWith(".js")).sort()) {
  const tree = parse(readFileSync(join(root, file), "utf8"), { ecmaVersion: "latest", sourceType: "module", locations: true });
  for (const { name, loc } of used(tree, new Set())) found.push(`${file}:${loc.start.line} ${name}`);
}
console.log(JSON.stringify(found));
