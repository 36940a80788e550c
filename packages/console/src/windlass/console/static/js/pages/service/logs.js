// The logs of all instances, merged and followed.

import { own } from "../../dom.js";
import { logView } from "../../log_view.js";

export const load = async ({ path, service }, place) => ({ view: logView(path, service.name, place) });

export const watch = ({ content }) => void content.view.start();

export const render = ({ content }) => own(content.view.node);
