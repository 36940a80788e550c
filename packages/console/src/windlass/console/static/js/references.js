// Fields that name another thing of the organization by its id: it is chosen by its name.

import { api } from "./api.js";
import { fill, h } from "./dom.js";
import { nameOf } from "./families.js";
import { inOrganization } from "./rights.js";
import { words } from "./words.js";

/** Makes the control of a field with `x-refers`; null if the organization has no such list. */
export function reference(document, family, value) {
  const path = inOrganization(family);
  if (!document.at("GET", path)) return null;
  const input = h("select");
  const offer = (rows, chosen) => {
    const others = chosen && !rows.some((row) => row.id === chosen) ? [{ id: chosen }] : []; // as one that may not be seen
    fill(input, h("option", { value: "" }, rows.length ? words.none : words.noneToChoose), [...rows, ...others].map((row) => h("option", { value: row.id }, nameOf(row))));
    input.value = chosen;
  };
  offer([], value || "");
  api.all(path).then((rows) => offer(rows, input.value), () => {}); // Without the right to read them, the present one stays.
  return { node: input, input, read: () => input.value || (value ? null : undefined) };
}
