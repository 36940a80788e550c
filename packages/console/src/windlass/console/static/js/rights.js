// What the signed-in person may do. The server decides; here, actions that it would refuse anywhere are shown as such.

import { api } from "./api.js";
import { loadedDocument } from "./document.js";
import { words } from "./words.js";

let organization = null;

/** Notes the organization of the account, with its scopes. */
export function keepRights(org) {
  organization = org;
}

/** The list of a family in the organization. */
export const inOrganization = (family) => `/organization/${organization.id}/${family}`;

/** True if some action may be refused. */
export const isLimited = () => Boolean(organization) && !organization.scopes_of_parts.includes("Admin");

/** Reads the rights again: a role may have changed. */
export async function readRights() {
  const { organizations } = await api.get("/account");
  organization = organizations.find((other) => other.id === organization?.id) || organization;
}

/**
 * Why operations would be refused: the scope that the first such needs; empty if all may be allowed. `needs`: [method, path]
 * of one operation, or a list of these.
 */
export function refusalOf(needs) {
  if (!needs || !isLimited()) return "";
  const operations = Array.isArray(needs[0]) ? needs : [needs];
  const scopes = operations.map((need) => loadedDocument()?.at(...need)?.["x-scope"]);
  const missing = scopes.find((scope) => scope && !organization.scopes_of_parts.includes(scope));
  return missing ? words.needsScope(missing) : "";
}
