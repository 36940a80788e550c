// The operations, families and fields of the server, read from its OpenAPI document.

import { headers } from "./api.js";
import { words } from "./words.js";

const NONE = "00000000-0000-0000-0000-000000000000";
let loading;
let loaded = null;

/** Loads the document once. */
export function loadDocument() {
  loading ||= fetch("/openapi.json", { headers: headers() }).then(async (answer) => {
    if (!answer.ok) throw new Error(words.noDocument);
    return (loaded = new ApiDocument(await answer.json()));
  });
  loading.catch(() => (loading = undefined));
  return loading;
}

/** The document, if it was loaded before. */
export const loadedDocument = () => loaded;

export class ApiDocument {
  constructor(document) {
    this.schemas = document.components.schemas;
    this.tags = document.tags || [];
    this.operations = [];
    for (const [path, item] of Object.entries(document.paths)) {
      for (const [method, operation] of Object.entries(item)) {
        this.operations.push({ ...operation, path, method: method.toUpperCase(), id: operation.operationId });
      }
    }
    this.byRoute = new Map(this.operations.map((operation) => [`${operation.method} ${shape(operation.path)}`, operation]));
  }

  /** The operation at a path with its ids in place. */
  at(method, path) {
    return this.byRoute.get(`${method} ${shape(path)}`) || this.operations.find((other) => other.method === method && fits(other.path, path));
  }

  operation(id) {
    return this.operations.find((operation) => operation.id === id);
  }

  /** Replaces references; merges the parts of `allOf`. */
  resolve(schema) {
    if (!schema) return {};
    if (schema.$ref) {
      const { $ref, ...more } = schema;
      return { ...this.resolve(this.schemas[$ref.split("/").pop()]), ...more };
    }
    if (schema.allOf) {
      const { allOf, ...more } = schema;
      return Object.assign({}, ...allOf.map((part) => this.resolve(part)), more);
    }
    return schema;
  }

  body(operation) {
    return this.resolve(operation?.requestBody?.content?.["application/json"]?.schema);
  }

  answer(operation) {
    const success = Object.entries(operation?.responses || {}).find(([status]) => status.startsWith("2"));
    return this.resolve(success?.[1].content?.["application/json"]?.schema);
  }

  /** The fields of what a list contains. */
  row(operation) {
    return this.resolve(this.resolve(this.answer(operation).properties?.results)?.items);
  }

  /** The lists directly below a path, such as /organization/{org_id}. */
  listsBelow(path) {
    const depth = path.split("/").length + 1;
    return this.operations.filter((operation) =>
      operation.method === "GET" && operation.path.split("/").length === depth && !operation.path.endsWith("}") &&
      fits(operation.path.slice(0, operation.path.lastIndexOf("/")), path) && this.answer(operation).properties?.results);
  }

  /** The families below a path: lists whose items can be created, opened or changed. */
  familiesBelow(path) {
    return this.listsBelow(path).filter((list) => this.at("POST", list.path) || this.at("PUT", list.path) || this.itemPath(list.path, NONE));
  }

  /** The path of an item of a list, which lies below the list or below the root; null if none can be read. */
  itemPath(list, id) {
    return [`${list}/${id}`, `/${lastOf(list)}/${id}`].find((path) => this.at("GET", path)) || null;
  }

  /** True for a list of services: items that can be deployed. */
  isDeployable(list) {
    const path = this.itemPath(list.path, NONE);
    return Boolean(path && this.at("POST", list.path) && this.at("POST", `${path}/deploy`));
  }

  /** The operations that read something of one resource beside its lists, such as the status of a cluster. */
  readingsOf(path) {
    const depth = path.split("/").length + 1;
    return this.operations.filter((operation) => {
      const shown = operation.method === "GET" && operation.path.split("/").length === depth && fits(operation.path.slice(0, operation.path.lastIndexOf("/")), path);
      return shown && !operation.path.endsWith("}") && this.answer(operation).properties && !this.answer(operation).properties.results;
    });
  }

  /** The family of each parameter of a path, such as `application` for `app_id`. */
  families() {
    return this.familyOfParameter ||= Object.fromEntries(this.operations.flatMap(({ path }) => [...path.matchAll(/\/(\w+)\/\{(\w+)\}/g)].map(([, family, name]) => [name, family])));
  }

  /** Actions on one resource: operations of POST directly below its path. */
  actionsOf(path) {
    const depth = path.split("/").length + 1;
    return this.operations.filter((operation) =>
      operation.method === "POST" && operation.path.split("/").length === depth && fits(operation.path.slice(0, operation.path.lastIndexOf("/")), path) &&
      !this.at("GET", `${path}/${operation.path.split("/").pop()}`));
  }

  /** The name of a family in the plural, from the summary of its list. */
  titleOf(list) {
    const text = list.summary.replace(/^(List|Read) (the |your )?/, "").replace(/ \(.*\)$/, "");
    return text.charAt(0).toUpperCase() + text.slice(1);
  }

  describe(tag) {
    return this.tags.find((other) => other.name === tag)?.description || "";
  }
}

const lastOf = (path) => path.split("/").pop();
const shape = (path) => path.replace(/\{[^}]+\}/g, "{}").replace(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, "{}");

function fits(pattern, path) {
  const wanted = pattern.split("/");
  const given = path.split("/");
  return wanted.length === given.length && wanted.every((piece, index) => piece.startsWith("{") || piece === given[index]);
}
