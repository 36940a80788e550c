// The activity of a service: each action, the person, and the changes.

import { api } from "../../api.js";
import { eventList } from "../audit.js";

export async function load({ id }, { org }) {
  const content = {};
  const refresh = async () => Object.assign(content, { events: (await api.get(`/organization/${org.id}/events`, { targetId: id, pageSize: 50 })).events });
  await refresh();
  return Object.assign(content, { refreshing: { refresh } });
}

export const render = ({ content }) => eventList(content.events);
