// Icons of the sprite in the page, and logos of a file that is fetched once. An icon says nothing alone: a word or a label goes with it.

import { svg } from "./dom.js";

const LOGOS = new URL("../logos.svg", import.meta.url).pathname;
const KNOWN = new Set(
  ("astro aws azure bitbucket bun celery codeberg dash deno digitalocean django docker docusaurus eleventy elixir express fastapi fastify flask gatsby gitea github gitlab go google googlecloud gradio hono html hugo koa kotlin ktor laravel " +
    "mongodb mysql nest net nextjs node nuxt opentofu perl phoenix postgresql python quarkus rails react reactrouter redis remix sanic scaleway springboot streamlit sveltekit symfony terraform vite wordpress").split(" "));
const OTHER_NAMES = { createreactapp: "react", aspnetcore: "net", pelican: "python", litestar: "python", starlette: "python", bottle: "python", gin: "go", echo: "go", fiber: "go" };

// What a kind of service, or a list of the organization, looks like. One that is not here looks like a package.
const OF_KIND = {
  __proto__: null,
  application: "app-window", container: "container", database: "database", job: "calendar-clock", terraform: "layers", project: "box", environment: "layers",
  apiToken: "key-round", member: "users", webhook: "webhook", cluster: "server", gitToken: "git-branch", containerRegistry: "package", preview: "git-branch", deploymentStage: "layers", audit: "scroll-text",
};

/** An icon of the sprite, for the eyes only. */
export function icon(name, kind = "") {
  return svg("svg", { class: kind ? `icon ${kind}` : "icon", "aria-hidden": "true" }, svg("use", { href: `#icon-${name}` }));
}

/** The icon of a family, such as `database`. */
export const kindIcon = (family, kind) => icon(OF_KIND[family] || "package", kind);

/** What a service looks like: the logo that its `icon_uri` names, or the icon of its kind. */
export const serviceIcon = ({ icon_uri: uri, service_type: type }) => logo(uri?.split("/").pop()) || kindIcon(String(type).toLowerCase());

/** The logo of a product, such as PostgreSQL or Next.js; null if there is none. */
export function logo(name, kind = "") {
  const word = String(name || "").toLowerCase().replace(/[^a-z0-9]/g, "");
  const known = OTHER_NAMES[word] || word;
  return KNOWN.has(known) ? svg("svg", { class: `icon logo ${kind}`.trim(), "aria-hidden": "true" }, svg("use", { href: `${LOGOS}#${known}` })) : null;
}
