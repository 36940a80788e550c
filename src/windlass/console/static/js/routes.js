// Addresses of the console, and the module of each page. A page is loaded when it is first opened.

const ID = "([0-9a-f-]{36})";

const ROUTES = [
  ["", () => import("./pages/overview.js"), []],
  ["new", () => import("./pages/new_service.js"), []],
  ["account", () => import("./pages/account.js"), []],
  [`invitation/${ID}`, () => import("./pages/overview.js"), ["invitation"]],
  [`project/${ID}`, () => import("./pages/project.js"), ["project"]],
  [`environment/${ID}`, () => import("./pages/environment.js"), ["environment"]],
  [`environment/${ID}/(variables)`, () => import("./pages/variables.js"), ["environment", "tab"]],
  [`project/${ID}/(variables)`, () => import("./pages/variables.js"), ["project", "tab"]],
  [`organization/${ID}`, () => import("./pages/organization.js"), ["organization"]],
  [`organization/${ID}/audit`, () => import("./pages/audit.js"), ["organization"]],
  [`organization/${ID}/member`, () => import("./pages/members.js"), ["organization"]],
  [`organization/${ID}/([a-zA-Z]+)`, () => import("./pages/derived_list.js"), ["organization", "family"]],
  [`organization/${ID}/([a-zA-Z]+)/${ID}`, () => import("./pages/derived_item.js"), ["organization", "family", "id"]],
  ["do/([\\w-]+)", () => import("./pages/operation.js"), ["operation"]],
  [`([a-z]+)/${ID}/deployments/${ID}`, () => import("./pages/deployment.js"), ["kind", "id", "deployment"]],
  [`([a-z]+)/${ID}(?:/([a-z]+))?`, () => import("./pages/service.js"), ["kind", "id", "tab"]],
].map(([pattern, load, names]) => [new RegExp(`^/console/?${pattern && `(?:${pattern})`}/?$`), load, names]);

/** Finds the page of an address. */
export function find(path) {
  for (const [pattern, load, names] of ROUTES) {
    const match = pattern.exec(path);
    if (match) return { load, params: Object.fromEntries(names.map((name, index) => [name, match[index + 1]])) };
  }
  return { load: () => import("./pages/missing.js"), params: {} };
}
