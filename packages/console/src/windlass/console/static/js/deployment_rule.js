// The deployment rule of an environment is replaced as a whole: a page that changes a part sends the rest as it was.

import { api } from "./api.js";

const FIELDS = ["auto_preview", "on_demand_preview", "auto_stop", "timezone", "start_time", "stop_time", "weekdays"];

export async function changeRule(path, changes) {
  const rule = await api.get(path);
  const kept = Object.fromEntries(FIELDS.map((name) => [name, rule[name]]));
  return (await api.put(`${path}/current`, { ...kept, ...changes })).data;
}
