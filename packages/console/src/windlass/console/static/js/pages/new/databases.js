// The kinds of databases, with their versions in an environment.

import { api } from "../../api.js";
import { logo } from "../../icons.js";
import { words } from "../../words.js";

const VARIABLES = { REDIS: "REDIS_URL", MONGODB: "MONGODB_URL" };

/** The kinds that a database can have, as cards: [type, name, about, logo]. */
export function kindCards(document) {
  const { type } = document.body(document.at("POST", "/environment/x/database")).properties;
  return document.resolve(type).enum.map((name) => [name, words.readable(name), words.newService.databases[name], logo(name, "large")]).sort(([one], [other]) => ORDER.indexOf(one) - ORDER.indexOf(other));
}
const ORDER = ["POSTGRESQL", "MYSQL", "REDIS", "MONGODB"];

/** The versions of each kind that the engine of an environment runs, the newest first: { POSTGRESQL: ["18", …] }. */
export async function readVersions(environment) {
  const { results } = await api.get(`/environment/${environment}/databaseConfiguration`);
  return Object.fromEntries(results.map(({ database_type: type, version }) => [type, [...new Set(version.map(({ name }) => name))]]));
}

/** What a database is sent as. */
export const databaseBody = (name, type, version, more = {}) => ({ name, type, version, mode: "CONTAINER", icon_uri: `app://windlass/${type.toLowerCase()}`, ...more });

/** The beginning of the variables of a database: MAIN_DB_ for main-db. */
export const prefixOf = (name) => `${name.toUpperCase().replace(/[^A-Z0-9]+/g, "_")}_`;

/** The variable in which programs expect the address of a database, and the one that has it. */
export const addressOf = (name, type) => [VARIABLES[type] || "DATABASE_URL", `{{${prefixOf(name)}URL}}`];
