// Prints the texts of words.js that no page names: node unused_texts.mjs FOLDER
import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";

const root = resolve(process.argv[2]);
const { words } = await import(`data:text/javascript,${encodeURIComponent(readFileSync(join(root, "words.js"), "utf8"))}`);
const files = readdirSync(root, { recursive: true }).filter((name) => name.endsWith(".js") && name !== "words.js").sort();
const named = new Map(); // by a module: what `text` is there
for (const file of files) named.set(file, readFileSync(join(root, file), "utf8"));

const isNamed = (path, end) => [...named.values()].some((code) => {
  const text = /const text = (words(?:\.\w+)*);/.exec(code)?.[1];
  const ways = [path, text && path.startsWith(`${text}.`) && `text${path.slice(text.length)}`, text === path && "text"].filter(Boolean);
  return ways.some((way) => new RegExp(`(?<![\\w.-])${way.replaceAll(".", "\\.")}${end}`).test(code.replace(/const text = .*;|import .*;|(?:^ *\/?\*|\/\/ ).*$/gm, "")));
});

// A group that is handed on as a whole, or read by a name that is known later, is used with all that is in it.
const unused = [];
function look(value, path) {
  const isGroup = value && typeof value === "object" && !Array.isArray(value);
  if (!isGroup) return isNamed(path, "(?!\\w)") || unused.push(path);
  if (isNamed(path, "(?!\\.?\\w)")) return;
  for (const [name, part] of Object.entries(value)) look(part, `${path}.${name}`);
}
look(words, "words");
console.log(JSON.stringify(unused));
