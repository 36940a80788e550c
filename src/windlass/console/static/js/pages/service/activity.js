// The activity of a service: each action, the person, and the changes.

import { api } from "../../api.js";
import { eventList } from "../audit.js";

export const load = async ({ id }, { org }) => ({ events: (await api.get(`/organization/${org.id}/events`, { targetId: id, pageSize: 50 })).events });

export const render = ({ content }) => eventList(content.events);
