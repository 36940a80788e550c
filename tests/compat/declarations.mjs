// Compares values with the types that the package declares.

import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import ts from "typescript";

export const HERE = dirname(fileURLToPath(import.meta.url));
export const STORY = join(HERE, "story.ts");
export const OPTIONS = {
  strict: true,
  noEmit: true,
  skipLibCheck: true,
  target: ts.ScriptTarget.ES2022,
  module: ts.ModuleKind.ESNext,
  moduleResolution: ts.ModuleResolutionKind.Bundler,
  types: [],
  lib: ["lib.es2022.d.ts", "lib.dom.d.ts"],
};

export class Conformance {
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

// A wrong answer, of which a check that finds nothing would not tell.
const WRONG = { id: 7, created_at: "2026-01-31T09:05:00.007Z", name: null, organization: { id: "a" } };

export function control(conformance) {
  return conformance.problems(WRONG, conformance.answerOf("ProjectMainCallsApi", "getProject"), "wrong");
}
