// How many copies run: a fixed number, or as many as the load asks for.

import { h } from "../dom.js";
import { field } from "../parts.js";
import { words } from "../words.js";
import { amount, segments } from "./part.js";

const text = words.settings.instances;
const NO_LIMIT = -1;

export const fields = ["min_running_instances", "max_running_instances"];

export function edit({ service }) {
  const { min_running_instances: least, max_running_instances: most } = service;
  let isFixed = least === most;
  const number = amount(least, null, { max: 10000 });
  const from = amount(least, null, { max: 10000 });
  const to = amount(most === NO_LIMIT ? null : most, null, { max: 10000, placeholder: text.noLimit });
  const fixed = h("div", { class: "line narrow" }, field(text.number, number.input, text.numberHelp, { name: "min_running_instances" }));
  const range = h("div", { class: "line narrow" }, field(words.fields.min_running_instances, from.input, "", { name: "min_running_instances" }), field(words.fields.max_running_instances, to.input, "", { name: "max_running_instances" }));
  const help = h("p", { class: "help" }, text.loadHelp);
  const show = () => ([fixed.hidden, range.hidden, help.hidden] = [!isFixed, isFixed, isFixed]);
  const choose = (value) => {
    isFixed = value === "fixed";
    if (isFixed) number.input.value = from.input.value;
    else from.input.value = number.input.value;
    show();
  };
  show();
  const read = () => {
    const [low, high] = isFixed ? [number.read(), number.read()] : [from.read(), to.read() ?? NO_LIMIT];
    return { min_running_instances: low, max_running_instances: high };
  };
  const changes = () => Object.fromEntries(Object.entries(read()).filter(([name, value]) => value !== service[name]));
  return { title: text.title, node: h("div", {}, segments(text.title, [["fixed", text.fixed], ["load", text.load]], isFixed ? "fixed" : "load", choose), fixed, range, help), changes };
}
