// What was done with a service, by whom, and what changed.

import { api } from "../../api.js";
import { eventList } from "../audit.js";

export const load = async ({ id }, { org }) => ({ events: (await api.get(`/organization/${org.id}/events`, { targetId: id, pageSize: 50 })).events });

export const render = ({ content }) => eventList(content.events);
