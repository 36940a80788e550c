// Runs story.ts against a server, and checks each answer against the declarations of the package.
//
//   node conformance.mjs URL TOKEN ORGANIZATION
//
// The story is compiled strictly, so what it sends fits the declarations as well. The last line of the output is
// JSON: the calls that were made, and the problems of their answers.

import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import ts from "typescript";
import * as client from "qovery-typescript-axios";
import { Conformance, HERE, OPTIONS, STORY, control } from "./declarations.mjs";

class Recording {
  constructor(conformance, url, token) {
    this.conformance = conformance;
    this.configuration = new client.Configuration({ basePath: url, apiKey: `Token ${token}` });
    this.calls = [];
    this.problems = [];
  }

  // An API of the package, of which each answer is checked.
  api = (Class) => {
    const name = Object.keys(client).find((key) => client[key] === Class);
    return new Proxy(new Class(this.configuration), {
      get: (target, method) =>
        typeof target[method] === "function" ? (...given) => this.call(target, name, method, given) : target[method],
    });
  };

  async call(target, name, method, given) {
    let response;
    try {
      response = await target[method](...given);
    } catch (error) {
      const said = error.response ? `${error.response.status} ${JSON.stringify(error.response.data)}` : error;
      throw new Error(`${name}.${method}: ${said}`);
    }
    const path = new URL(response.request.path, "http://server").pathname;
    this.calls.push({ method: response.config.method.toUpperCase(), path, status: response.status });
    const type = this.conformance.answerOf(name, method);
    this.problems.push(...this.conformance.problems(response.data, type, `${name}.${method}`));
    return response;
  }
}

function compiled() {
  const program = ts.createProgram([STORY], OPTIONS);
  const wrong = ts.getPreEmitDiagnostics(program);
  if (wrong.length) {
    throw new Error(ts.formatDiagnostics(wrong, { ...ts.sys, getCanonicalFileName: (name) => name, getNewLine: () => "\n" }));
  }
  const { outputText } = ts.transpileModule(readFileSync(STORY, "utf8"), { compilerOptions: OPTIONS });
  return { program, text: outputText };
}

const [url, token, organization] = process.argv.slice(2);
const { program, text } = compiled();
const conformance = new Conformance(program);
const recording = new Recording(conformance, url, token);
const script = join(HERE, `story-${process.pid}.mjs`);
writeFileSync(script, text);
let failed = null;
try {
  const { story } = await import(pathToFileURL(script).href);
  await story(recording.api, organization);
} catch (error) {
  failed = String(error.message ?? error);
} finally {
  rmSync(script, { force: true });
}
console.log(JSON.stringify({ calls: recording.calls, problems: recording.problems, control: control(conformance), failed }));
