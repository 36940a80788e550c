// The logs of all instances, merged and followed.

import { own } from "../../dom.js";
import { logView } from "../../log_view.js";

export const load = async ({ path, service }, place) => ({ view: logView(path, service.name, place) });

export function watch({ content }, place) {
  content.view.start();
  place.onStop(content.view.stop);
}

export const render = ({ content }) => own(content.view.node);
