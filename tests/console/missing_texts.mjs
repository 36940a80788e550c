// Prints the texts that pages of the console name and words.js or words_of_….js lacks, and sentences that stand elsewhere: node missing_texts.mjs FOLDER
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join, relative, resolve } from "node:path";

const root = resolve(process.argv[2]);
const IS_WORDS = /^words(_of_\w+)?\.js$/;
const known = {};
for (const name of readdirSync(root).filter((name) => IS_WORDS.test(name))) {
  const source = readFileSync(join(root, name), "utf8");
  Object.assign(known, await import(`data:text/javascript,${encodeURIComponent(source)}`));
}
const filesIn = (folder) => readdirSync(folder).sort().flatMap((name) => (statSync(join(folder, name)).isDirectory() ? filesIn(join(folder, name)) : [join(folder, name)]));

function isThere(names) {
  let value = known;
  for (const name of names) {
    if (value === undefined) return false;
    if (typeof value !== "object" || Array.isArray(value)) return true; // a method of a text or a list
    value = value[name];
  }
  return value !== undefined;
}

const NAMES = Object.keys(known).join("|");
const missing = [];
for (const file of filesIn(root)) {
  const text = readFileSync(file, "utf8");
  if (!file.endsWith(".js") || IS_WORDS.test(relative(root, file))) continue;
  const code = text.replace(/^\s*(\/\/|\*|\/\*\*).*$/gm, "").replace(/\/\*[^]*?\*\//g, "");
  for (const [, sentence] of code.matchAll(/"([A-Z][a-z]+ [^"\\]*[a-z][^"\\]*)"/g)) missing.push(`${relative(root, file)}: "${sentence}"`);
  const base = new RegExp(`const text = ((?:${NAMES})(?:\\.[\\w.]+)?);`).exec(text)?.[1].split(".");
  for (const name of Object.keys(known).filter((name) => name === "words" || new RegExp(`import .*\\b${name}\\b.* from`).test(text)))
    for (const [, path] of text.matchAll(new RegExp(`(?<![\\w/.])(${name}\\.[a-zA-Z_][\\w.]*)`, "g"))) if (!isThere(path.split("."))) missing.push(`${relative(root, file)}: ${path}`);
  if (base) for (const [, path] of text.matchAll(/(?<![\w.])text\.([a-zA-Z_][\w.]*)/g)) if (!isThere([...base, ...path.split(".")])) missing.push(`${relative(root, file)}: text.${path}`);
}
console.log(JSON.stringify(missing));
