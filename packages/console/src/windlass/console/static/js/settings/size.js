// How much processor and memory an instance may use: a usual size, or amounts of one's own.

import { h } from "../dom.js";
import { amountOf } from "../format.js";
import { field } from "../parts.js";
import { words } from "../words.js";
import { amount, cards } from "./part.js";

const text = words.settings.size;
const SIZES = [[250, 256], [500, 512], [1000, 1024], [2000, 2048], [4000, 8192]];
const OWN = "own";

export const fields = ["cpu", "memory"];

export function edit({ service }) {
  const known = SIZES.some(([cpu, memory]) => cpu === service.cpu && memory === service.memory);
  let chosen = known ? `${service.cpu}/${service.memory}` : OWN;
  const cpu = amount(service.cpu / 1000, text.cpus, { min: 0.001, step: "any" });
  const isInGigabytes = service.memory >= 1024 && service.memory % 1024 === 0;
  const memory = amount(isInGigabytes ? service.memory / 1024 : service.memory, null, { min: 0, step: "any" });
  const unit = h("select", { "aria-label": text.unit }, ["MB", "GB"].map((name) => h("option", { value: name, selected: (name === "GB") === isInGigabytes }, name)));
  memory.node.append(unit);
  const own = h("div", { class: "line narrow", hidden: known }, field(text.cpu, cpu.input, "", { name: "cpu" }), field(text.memory, memory.input, "", { name: "memory" }));
  for (const part of [cpu, memory]) own.querySelector(`#${part.input.id}`).replaceWith(part.node), part.node.prepend(part.input);
  const choose = (value) => {
    chosen = value;
    own.hidden = value !== OWN;
    if (value !== OWN) [cpu.input.value, memory.input.value, unit.value] = [Number(value.split("/")[0]) / 1000, Number(value.split("/")[1]), "MB"];
  };
  const node = h("div", {},
    cards(text.title, [...SIZES.map(([cpu, memory]) => [`${cpu}/${memory}`, amountOf.cpu(cpu), amountOf.memory(memory)]), [OWN, text.own, text.ownAbout]], chosen, choose), own);
  const read = () => ({ cpu: Math.round(cpu.read() * 1000), memory: Math.round(memory.read() * (unit.value === "GB" ? 1024 : 1)) });
  const changes = () => Object.fromEntries(Object.entries(read()).filter(([name, value]) => value !== service[name]));
  return { title: text.title, about: text.about, node, read, changes };
}
