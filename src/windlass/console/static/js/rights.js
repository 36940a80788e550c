// What the signed-in person may do. The server decides; here, actions that it would refuse anywhere are shown as such.

import { api } from "./api.js";
import { loadedDocument } from "./document.js";
import { words } from "./words.js";

let organization = null;

/** Notes the organization of the account, with its scopes. */
export function keepRights(org) {
  organization = org;
}

/** True if some action may be refused. */
export const isLimited = () => Boolean(organization) && !organization.scopes_of_parts.includes("Admin");

/** Reads the rights again: a role may have changed. */
export async function readRights() {
  const { organizations } = await api.get("/account");
  organization = organizations.find((other) => other.id === organization?.id) || organization;
}

/** Why an operation would be refused: the scope that it needs; empty if it may be allowed. `need`: [method, path]. */
export function refusalOf(need) {
  const scope = need && isLimited() && loadedDocument()?.at(...need)?.["x-scope"];
  if (!scope || organization.scopes_of_parts.includes(scope)) return "";
  return words.needsScope(scope);
}
