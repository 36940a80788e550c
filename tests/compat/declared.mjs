// Checks answers against the types that the package declares for their operations.
//
//   node declared.mjs <ANSWERS
//
// The input is a list of answers, each with `method`, `path` and `body`; `{}` in a path stands for a parameter. The
// output is JSON: the number of answers whose operation the package has, and the problems.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import ts from "typescript";
import { Conformance, OPTIONS, STORY, control } from "./declarations.mjs";

const API = /^const (\w+Api)AxiosParamCreator = function/;
const METHOD = /^ {8}(\w+): \(/;
const PATH = /localVarPath = `([^`]*)`/;
const VERB = /assign\(\{ method: '([A-Z]+)' \}/;

// The class and the method of each operation, from the code that builds its request.
function operations() {
  const file = createRequire(import.meta.url).resolve("qovery-typescript-axios").replace(/index\.js$/, "api.js");
  const found = new Map();
  let api, method, path;
  for (const line of readFileSync(file, "utf8").split("\n")) {
    api = API.exec(line)?.[1] ?? api;
    method = METHOD.exec(line)?.[1] ?? method;
    path = PATH.exec(line)?.[1] ?? path;
    const verb = VERB.exec(line)?.[1];
    if (verb) found.set(`${verb} ${path.replace(/\{[^}]*\}/g, "{}")}`, { api, method });
  }
  return found;
}

const conformance = new Conformance(ts.createProgram([STORY], OPTIONS));
const known = operations();
const problems = [];
let checked = 0;
for (const { method, path, body } of JSON.parse(readFileSync(0, "utf8"))) {
  const operation = known.get(`${method} ${path}`);
  if (!operation) continue;
  checked += 1;
  const type = conformance.answerOf(operation.api, operation.method);
  problems.push(...conformance.problems(body, type, `${method} ${path}`));
}
console.log(JSON.stringify({ known: known.size, checked, problems, control: control(conformance) }));
