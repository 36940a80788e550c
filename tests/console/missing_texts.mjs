// Prints the texts that pages of the console name and words.js lacks, and sentences that stand elsewhere: node missing_texts.mjs FOLDER
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join, relative, resolve } from "node:path";

const root = resolve(process.argv[2]);
const source = readFileSync(join(root, "words.js"), "utf8");
const { words } = await import(`data:text/javascript,${encodeURIComponent(source)}`);
const filesIn = (folder) => readdirSync(folder).sort().flatMap((name) => (statSync(join(folder, name)).isDirectory() ? filesIn(join(folder, name)) : [join(folder, name)]));

function isThere(names) {
  let value = words;
  for (const name of names) {
    if (value === undefined) return false;
    if (typeof value !== "object" || Array.isArray(value)) return true; // a method of a text or a list
    value = value[name];
  }
  return value !== undefined;
}

const missing = [];
for (const file of filesIn(root)) {
  const text = readFileSync(file, "utf8");
  if (!file.endsWith(".js") || file.endsWith("words.js")) continue;
  const code = text.replace(/^\s*(\/\/|\*|\/\*\*).*$/gm, "").replace(/\/\*[^]*?\*\//g, "");
  for (const [, sentence] of code.matchAll(/"([A-Z][a-z]+ [^"\\]*[a-z][^"\\]*)"/g)) missing.push(`${relative(root, file)}: "${sentence}"`);
  const base = /const text = words\.([\w.]+);/.exec(text)?.[1].split(".");
  for (const [, path] of text.matchAll(/(?<![\w/.])words\.([a-zA-Z_][\w.]*)/g)) if (path !== "js" && !isThere(path.split("."))) missing.push(`${relative(root, file)}: words.${path}`);
  if (base) for (const [, path] of text.matchAll(/(?<![\w.])text\.([a-zA-Z_][\w.]*)/g)) if (!isThere([...base, ...path.split(".")])) missing.push(`${relative(root, file)}: text.${path}`);
}
console.log(JSON.stringify(missing));
