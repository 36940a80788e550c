// Runs story.ts against a server, and checks each answer against the declarations of the package.
//
//   node conformance.mjs URL TOKEN ORGANIZATION
//
// The story is compiled strictly, so what it sends fits the declarations as well. The last line of the output is
// JSON: the calls that were made, and the problems of their answers.

import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import ts from "typescript";
import * as client from "qovery-typescript-axios";

const HERE = dirname(fileURLToPath(import.meta.url));
const STORY = join(HERE, "story.ts");
const OPTIONS = {
  strict: true,
  noEmit: true,
  skipLibCheck: true,
  target: ts.ScriptTarget.ES2022,
  module: ts.ModuleKind.ESNext,
  moduleResolution: ts.ModuleResolutionKind.Bundler,
  types: [],
  lib: ["lib.es2022.d.ts", "lib.dom.d.ts"],
};

class Conformance {
  constructor(program) {
    this.checker = program.getTypeChecker();
    const source = program.getSourceFile(STORY);
    const imported = source.statements.find(ts.isImportDeclaration);
    const declarations = this.checker.getSymbolAtLocation(imported.moduleSpecifier);
    this.exports = new Map(this.checker.getExportsOfModule(declarations).map((symbol) => [symbol.name, symbol]));
  }

  // The type of the body that a method of an API answers.
  answerOf(api, method) {
    const type = this.checker.getDeclaredTypeOfSymbol(this.exports.get(api));
    const property = this.checker.getPropertyOfType(type, method);
    const signature = this.checker.getTypeOfSymbol(property).getCallSignatures()[0];
    const response = this.checker.getAwaitedType(signature.getReturnType());
    return this.checker.getTypeOfSymbol(this.checker.getPropertyOfType(response, "data"));
  }

  // The differences between a value and a type, each with its path.
  problems(value, type, path) {
    const flags = type.flags;
    if (flags & (ts.TypeFlags.Any | ts.TypeFlags.Unknown | ts.TypeFlags.Void)) return [];
    if (type.isUnion()) return this.ofUnion(value, type, path);
    if (type.isIntersection()) return type.types.flatMap((part) => this.problems(value, part, path));
    if (flags & ts.TypeFlags.Null) return value === null ? [] : [this.differs(value, type, path)];
    if (flags & ts.TypeFlags.Undefined) return value === undefined ? [] : [this.differs(value, type, path)];
    if (type.isStringLiteral() || type.isNumberLiteral()) {
      return value === type.value ? [] : [this.differs(value, type, path)];
    }
    if (flags & ts.TypeFlags.BooleanLiteral) {
      return String(value) === type.intrinsicName ? [] : [this.differs(value, type, path)];
    }
    if (flags & ts.TypeFlags.StringLike) return this.ofKind("string", value, type, path);
    if (flags & ts.TypeFlags.NumberLike) return this.ofKind("number", value, type, path);
    if (flags & ts.TypeFlags.BooleanLike) return this.ofKind("boolean", value, type, path);
    if (this.checker.isArrayType(type)) return this.ofList(value, type, path);
    return this.ofObject(value, type, path);
  }

  ofUnion(value, type, path) {
    const tries = type.types.map((part) => this.problems(value, part, path));
    if (tries.some((found) => found.length === 0)) return [];
    const deep = tries.filter((found) => found.some((text) => !text.startsWith(`${path}: `)));
    return deep.length === 1 ? deep[0] : [this.differs(value, type, path)];
  }

  ofKind(kind, value, type, path) {
    return typeof value === kind ? [] : [this.differs(value, type, path)];
  }

  ofList(value, type, path) {
    if (!Array.isArray(value)) return [this.differs(value, type, path)];
    const [item] = this.checker.getTypeArguments(type);
    return value.flatMap((part, index) => this.problems(part, item, `${path}[${index}]`));
  }

  ofObject(value, type, path) {
    if (typeof value !== "object" || value === null || Array.isArray(value)) {
      return [this.differs(value, type, path)];
    }
    return type.getProperties().flatMap((property) => {
      const field = value[property.name];
      if (field === undefined && property.flags & ts.SymbolFlags.Optional) return [];
      return this.problems(field, this.checker.getTypeOfSymbol(property), `${path}.${property.name}`);
    });
  }

  differs(value, type, path) {
    const shown = value === undefined ? "nothing" : JSON.stringify(value).slice(0, 60);
    return `${path}: is ${shown}, not ${this.checker.typeToString(type).slice(0, 200)}`;
  }
}

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

// A wrong answer, of which a check that finds nothing would not tell.
const WRONG = { id: 7, created_at: "2026-01-31T09:05:00.007Z", name: null, organization: { id: "a" } };

const [url, token, organization] = process.argv.slice(2);
const { program, text } = compiled();
const conformance = new Conformance(program);
const recording = new Recording(conformance, url, token);
const control = conformance.problems(WRONG, conformance.answerOf("ProjectMainCallsApi", "getProject"), "wrong");
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
console.log(JSON.stringify({ calls: recording.calls, problems: recording.problems, control, failed }));
