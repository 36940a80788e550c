// The operations, families and fields of the server, read from its OpenAPI document.

import { api } from "./api.js";

const NONE = "00000000-0000-0000-0000-000000000000";
let loading;
let loaded = null;

/** Loads the document once. */
export function loadDocument() {
  loading ||= api.get("/openapi.json").then((document) => (loaded = new ApiDocument(document)));
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
    this.lists = new Map(); // by the shape of the path: a page asks each time that it is drawn
    for (const [path, item] of Object.entries(document.paths)) {
      for (const [method, operation] of Object.entries(item)) {
        this.operations.push({ ...operation, path, pieces: path.split("/"), method: method.toUpperCase(), id: operation.operationId });
      }
    }
    this.byRoute = new Map(this.operations.map((operation) => [`${operation.method} ${shape(operation.path)}`, operation]));
  }

  /** The operation at a path with its ids in place. */
  at(method, path) {
    return this.byRoute.get(`${method} ${shape(path)}`) || this.operations.find((other) => other.method === method && fits(other.pieces, path.split("/")));
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

  /** The things in the example of a list. */
  examplesOf(list) {
    return list.responses?.["200"]?.content?.["application/json"]?.example?.results || [];
  }

  /** The lists directly below a path, such as /organization/{org_id}. */
  listsBelow(path) {
    const place = shape(path);
    if (!this.lists.has(place)) this.lists.set(place, this.below("GET", path).filter((operation) => this.answer(operation).properties?.results));
    return this.lists.get(place);
  }

  /** The operations of a method directly below a path, without those on an item. */
  below(method, path) {
    const pieces = path.split("/");
    return this.operations.filter((operation) =>
      operation.method === method && operation.pieces.length === pieces.length + 1 && !operation.path.endsWith("}") && fits(operation.pieces.slice(0, -1), pieces));
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
    return this.below("GET", path).filter((operation) => {
      const { properties } = this.answer(operation);
      return properties && !properties.results;
    });
  }

  /** The family of each parameter of a path, such as `application` for `app_id`. */
  families() {
    return this.familyOfParameter ||= Object.fromEntries(this.operations.flatMap(({ path }) => [...path.matchAll(/\/(\w+)\/\{(\w+)\}/g)].map(([, family, name]) => [name, family])));
  }

  /** Actions on one resource: operations of POST directly below its path. */
  actionsOf(path) {
    return this.below("POST", path).filter((operation) => !this.at("GET", `${path}/${lastOf(operation.path)}`));
  }

  /** The name of a family in the plural, from the summary of its list. */
  titleOf(list) {
    const text = list.summary.replace(/^(List|Read) (the |your )?/, "").replace(/ \(.*\)$/, "");
    return text.charAt(0).toUpperCase() + text.slice(1);
  }

  /** What a family is for: its name, which stands above, is left out. */
  describe(tag) {
    const text = (this.tags.find((other) => other.name === tag)?.description || "").replace(/^[^:.]+: /, "");
    return text.charAt(0).toUpperCase() + text.slice(1);
  }
}

const lastOf = (path) => path.split("/").pop();
const shape = (path) => path.replace(/\{[^}]+\}/g, "{}").replace(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, "{}");

function fits(wanted, given) {
  return wanted.length === given.length && wanted.every((piece, index) => piece.startsWith("{") || piece === given[index]);
}
