// Advanced settings: those that act, each with its default. They are a resource of their own beside the service.

import { api } from "../api.js";
import { schemaForm } from "../forms.js";
import { words } from "../words.js";

/** The part for them, or null if the service has none: `pending` returns what is not saved yet, `save` sends it. */
export function advancedPart({ document, path, service }) {
  const place = `${path}/advancedSettings`;
  const operation = document.at("PUT", place);
  if (!operation) return null;
  const schema = document.body(operation);
  const present = service.advanced_settings || {};
  const form = schemaForm(document, schema, { values: present });
  // A key that is left out gets its default.
  const body = () => Object.fromEntries(Object.entries({ ...present, ...form.changes() }).filter(([, value]) => value !== null));
  return {
    title: words.settings.advanced, about: words.settings.advancedAbout, fields: [], node: form.node, changes: () => ({}), pending: form.changes,
    isNow: (name) => document.resolve(schema.properties[name])["x-acts"] !== "DEPLOYMENT",
    save: (tag) => api.put(place, body(), tag),
  };
}
