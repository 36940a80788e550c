// Prints the lists and readings that pages made by hand show, by the tab: node shown_by_hand.mjs routes.js
import { readFileSync } from "node:fs";

const source = readFileSync(process.argv[2], "utf8");
const { TABS } = await import(`data:text/javascript,${encodeURIComponent(source)}`);
console.log(JSON.stringify(Object.fromEntries(Object.entries(TABS).map(([name, { reads, shows = [] }]) => [name, [reads, ...shows].filter(Boolean)]))));
