// Addresses of the console, and the module of each page. A page is loaded when it is first opened.

const ID = "([0-9a-f-]{36})";
const NAME = "([a-zA-Z]+)";
const TAB = "(runs|plan|tags|deployments|logs|variables|metrics|terminal|settings|activity)";

// Lists of families that have pages made by hand; all others have derived ones.
const LISTS = {
  member: () => import("./pages/members.js"),
};

const ROUTES = [
  ["", () => import("./pages/overview.js"), []],
  ["new", () => import("./pages/new_service.js"), []],
  ["account", () => import("./pages/account.js"), []],
  [`invitation/${ID}`, () => import("./pages/overview.js"), ["invitation"]],
  ["do/([\\w-]+)", () => import("./pages/operation.js"), ["operation"]],
  [`project/${ID}`, () => import("./pages/project.js"), ["project"]],
  [`environment/${ID}`, () => import("./pages/environment.js"), ["environment"]],
  [`environment/${ID}/variables`, () => import("./pages/variables.js"), ["environment"]],
  [`project/${ID}/variables`, () => import("./pages/variables.js"), ["project"]],
  [`organization/${ID}`, () => import("./pages/organization.js"), ["organization"]],
  [`organization/${ID}/audit`, () => import("./pages/audit.js"), ["organization"]],
  [`${NAME}/${ID}/deployments/${ID}`, () => import("./pages/deployment.js"), ["kind", "id", "deployment"]],
  [`${NAME}/${ID}/runs/${ID}`, () => import("./pages/run.js"), ["kind", "id", "run"]],
  [`${NAME}/${ID}(?:/${TAB})?`, () => import("./pages/service.js"), ["kind", "id", "tab"]],
  [`${NAME}/${ID}/${NAME}`, ({ family }) => (LISTS[family] || (() => import("./pages/derived_list.js")))(), ["parent", "parentId", "family"]],
  [`${NAME}/${ID}/${NAME}/${ID}`, () => import("./pages/derived_item.js"), ["parent", "parentId", "family", "id"]],
].map(([pattern, load, names]) => [new RegExp(`^/console/?${pattern && `(?:${pattern})`}/?$`), load, names]);

/** Finds the page of an address. */
export function find(path) {
  for (const [pattern, load, names] of ROUTES) {
    const match = pattern.exec(path);
    if (!match) continue;
    const params = Object.fromEntries(names.map((name, index) => [name, match[index + 1]]));
    return { load: () => load(params), params };
  }
  return { load: () => import("./pages/missing.js"), params: {} };
}
