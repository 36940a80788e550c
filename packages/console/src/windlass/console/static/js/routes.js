// Addresses of the console, and the module of each page. A page is loaded when it is first opened.

const ID = "([0-9a-f-]{36})";
const NAME = "([a-zA-Z]+)";

/**
 * The tabs of a service. A tab is there if the API has what it `reads`, the action that it `needs`, the advanced setting with which it is `set`, and
 * the field that it `sends` with a deployment. `shows`: further lists and readings that are on it, and have no pages of their own.
 */
export const TABS = {
  overview: { load: () => import("./pages/service/overview.js"), shows: ["status", "ingressDeploymentStatus"] },
  runs: { load: () => import("./pages/service/runs.js"), reads: "run", shows: ["dueTimes"] },
  plan: { load: () => import("./pages/service/plan.js"), reads: "plan", shows: ["lock", "stateVersion"] },
  resources: { load: () => import("./pages/service/resources.js"), reads: "terraformResources" },
  deployments: { load: () => import("./pages/service/deployments.js"), reads: "deployment", shows: ["deploymentHistory", "deploymentHistoryV2", "commit", "upload", "rollbackDifference"] },
  tags: { load: () => import("./pages/service/tags.js"), reads: "version", sends: "image_tag" },
  logs: { load: () => import("./pages/service/logs.js"), reads: "log" },
  requests: { load: () => import("./pages/service/requests.js"), reads: "log", set: "windlass.access_log.format" },
  metrics: { load: () => import("./pages/service/metrics.js"), reads: "metrics" },
  variables: { load: () => import("./pages/service/variables.js"), reads: "environmentVariable", shows: ["secret", "injectedVariable", "variableHistory", "variableUse"] },
  domains: { load: () => import("./pages/service/domains.js"), reads: "customDomain", shows: ["checkCustomDomain"] },
  terminal: { load: () => import("./pages/service/terminal.js"), reads: "log", needs: "restart-service" },
  settings: { load: () => import("./pages/service/settings.js"), shows: ["network", "advancedSettings"] },
  activity: { load: () => import("./pages/service/activity.js") },
};
const TAB = `(${Object.keys(TABS).join("|")})`;

// Lists of families that have pages made by hand; all others have derived ones.
const LISTS = {
  __proto__: null, // Its names are those of addresses.
  member: { load: () => import("./pages/members.js"), shows: ["inviteMember"] },
  preview: { load: () => import("./pages/previews.js") },
  deploymentStage: { load: () => import("./pages/stages.js") },
};

// Kinds of services whose new ones have a page made by hand, here or in a package; all others have a form of the API.
const MADE_BY_HAND = document.documentElement.dataset.newServices.split(" ");

/** The page of a new service of a kind. */
export const newServiceOf = (kind) => (MADE_BY_HAND.includes(kind) ? import(`./pages/new/${kind}.js`) : import("./pages/new/other.js"));

// Families whose things are made in a form by hand, on their derived pages.
const FORMS = {
  __proto__: null,
  apiToken: () => import("./forms/apiToken.js"),
  cluster: () => import("./forms/cluster.js"),
  containerRegistry: () => import("./forms/containerRegistry.js"),
  deploymentRestriction: () => import("./forms/deploymentRestriction.js"),
  gitToken: () => import("./forms/gitToken.js"),
  webhook: () => import("./forms/webhook.js"),
};

/** The form made by hand for the things of a family, if there is one. */
export const formOf = (family) => FORMS[family]?.();

const SHOWN = new Set(["project", "environment", ...Object.values({ ...TABS, ...LISTS }).flatMap(({ reads, shows = [] }) => [reads, ...shows])]);

/** True for a list or a reading that a page made by hand shows, so that it has no page of its own. */
export const isShown = (name) => SHOWN.has(name);

const ROUTES = [
  ["", () => import("./pages/overview.js"), []],
  ["new", () => import("./pages/new_service.js"), []],
  ["account", () => import("./pages/account.js"), []],
  [`invitation/${ID}`, () => import("./pages/invitation.js"), ["invitation"]],
  ["do/([\\w-]+)", () => import("./pages/operation.js"), ["operation"]],
  [`project/${ID}`, () => import("./pages/project.js"), ["project"]],
  [`environment/${ID}`, () => import("./pages/environment.js"), ["environment"]],
  [`environment/${ID}/deployments`, () => import("./pages/environment_deployments.js"), ["environment"]],
  [`environment/${ID}/deployments/${ID}`, () => import("./pages/environment_deployment.js"), ["environment", "deployment"]],
  [`environment/${ID}/variables`, () => import("./pages/variables.js"), ["environment"]],
  [`project/${ID}/variables`, () => import("./pages/variables.js"), ["project"]],
  [`organization/${ID}`, () => import("./pages/organization.js"), ["organization"]],
  [`organization/${ID}/audit`, () => import("./pages/audit.js"), ["organization"]],
  [`${NAME}/${ID}/deployments/${ID}`, () => import("./pages/deployment.js"), ["kind", "id", "deployment"]],
  [`${NAME}/${ID}/runs/${ID}`, () => import("./pages/run.js"), ["kind", "id", "run"]],
  [`${NAME}/${ID}(?:/${TAB})?`, () => import("./pages/service.js"), ["kind", "id", "tab"]],
  [`${NAME}/${ID}/${NAME}`, ({ family }) => LISTS[family]?.load() || import("./pages/derived_list.js"), ["parent", "parentId", "family"]],
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
