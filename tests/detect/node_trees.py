"""Trees of Node, and the recipes that they must give."""

from __future__ import annotations

from tests.detect.trees import Row, package

ROWS = [
    Row(
        "Express",
        {"package.json": package("express", start="node app.js"), "package-lock.json": "{}"},
        {
            "language": "Node",
            "framework": "Express",
            "package_manager": "npm",
            "install": "npm ci",
            "start": "npm run start",
        },
        {"start": "It is a script of package.json: `node app.js`."},
    ),
    Row(
        "the main of package.json",
        {"package.json": package("koa", main="./lib/serve.js"), "lib/serve.js": ""},
        {"framework": "Koa", "install": "npm install", "start": "node lib/serve.js"},
    ),
    Row(
        "a start script that builds",
        {"package.json": package("express", start="npm run build && node dist/server.js", build="tsc")},
        {"start": "npm run start", "build": ""},
        {
            "start": "It is a script of package.json: `npm run build && node dist/server.js`. It "
            "builds at each start, so the build does not."
        },
    ),
    Row(
        "a script of the installation that builds",
        {
            "package.json": package(
                "express", scripts={"start": "node dist", "build": "tsc", "postinstall": "yarn build"}
            )
        },
        {"start": "npm run start", "build": ""},
        {"start": "It is a script of package.json: `node dist`."},
    ),
    Row(
        "a start script for production beside start",
        {"package.json": package("koa", scripts={"start": "nodemon .", "start:prod": "node ."})},
        {"start": "npm run start:prod"},
    ),
    Row("server.js", {"package.json": "{}", "server.js": ""}, {"start": "node server.js", "install": ""}),
    Row(
        "Nest",
        {"package.json": package("@nestjs/core", start="nest start", build="nest build")},
        {"framework": "Nest", "start": "node dist/main", "build": "npm run build"},
    ),
    Row(
        "Next.js",
        {"package.json": package("next", "react", start="next start", build="next build"), "yarn.lock": ""},
        {
            "framework": "Next.js",
            "start": "yarn run start",
            "build": "yarn run build",
            "install": "yarn install --frozen-lockfile",
            "port": 3000,
        },
    ),
    Row(
        "Next.js that exports files",
        {
            "package.json": package("next", build="next build"),
            "next.config.mjs": "export default {output: 'export'}",
        },
        {"framework": "Next.js", "static_folder": "out", "start": ""},
    ),
    Row(
        "Nuxt",
        {"package.json": package("nuxt", build="nuxt build")},
        {"framework": "Nuxt", "start": "node .output/server/index.mjs"},
    ),
    Row(
        "Nuxt for another platform",
        {
            "package.json": package("nuxt", build="nuxt build"),
            "nuxt.config.ts": "export default defineNuxtConfig({ nitro: { preset: 'vercel' } })",
        },
        {"build": "env NITRO_PRESET=node-server npm run build", "start": "node .output/server/index.mjs"},
    ),
    Row(
        "Nuxt for another platform, without a build script",
        {
            "package.json": package("nuxt"),
            "nuxt.config.ts": "export default defineNuxtConfig({ nitro: { preset: 'netlify' } })",
        },
        {"build": "env NITRO_PRESET=node-server npx nuxt build"},
    ),
    Row(
        "Nuxt with a preset of something else",
        {
            "package.json": package("nuxt", build="nuxt build"),
            "nuxt.config.ts": "export default defineNuxtConfig({ primevue: { preset: 'aura' } })",
        },
        {"build": "npm run build"},
    ),
    Row(
        "Nuxt that generates files",
        {"package.json": package("nuxt", build="nuxt generate")},
        {"static_folder": ".output/public", "start": ""},
    ),
    Row(
        "Nuxt 2 that generates files",
        {"package.json": package(build="nuxt generate", dependencies={"nuxt": "^2.15.8"})},
        {"static_folder": "dist"},
    ),
    Row(
        "Nuxt for GitHub's pages",
        {
            "package.json": package("nuxt", build="nuxt build"),
            "nuxt.config.ts": "export default defineNuxtConfig({ nitro: { preset: 'github-pages' } })",
        },
        {"static_folder": ".output/public", "build": "npm run build"},
    ),
    Row(
        "Astro with files for another platform",
        {"package.json": package("astro", "@astrojs/vercel", build="astro build"), "astro.config.mjs": ""},
        {"static_folder": "dist"},
    ),
    Row(
        "Express that serves the pages of a folder",
        {
            "package.json": package("express", start="node server.js"),
            "package-lock.json": "{}",
            "server.js": "app.use(express.static(path.join(__dirname, 'client', 'build')))",
            "client/package.json": package("react-scripts", build="react-scripts build"),
            "client/package-lock.json": "{}",
        },
        {
            "framework": "Express",
            "start": "npm run start",
            "build": "npm ci --prefix client --include=dev && npm run build --prefix client "
            "&& rm -rf client/node_modules",
        },
        {"build": "server.js serves files that the build of client makes."},
    ),
    Row(
        "Express in a folder that serves the pages of another one",
        {
            "package.json": package("express", start="node backend/index.js"),
            "backend/index.js": "app.use(express.static('../web/dist'))",
            "web/package.json": package("vite", build="vite build"),
            "web/yarn.lock": "",
        },
        {
            "build": "yarn --cwd web install --frozen-lockfile --production=false "
            "&& yarn --cwd web run build && rm -rf web/node_modules"
        },
    ),
    Row(
        "Express beside pages that it does not serve",
        {
            "package.json": package("express", start="node server.js"),
            "server.js": "app.use(express.static('public'))",
            "client/package.json": package("react-scripts", build="react-scripts build"),
        },
        {"build": ""},
    ),
    Row(
        "Express whose installation builds the pages",
        {
            "package.json": package(
                scripts={"start": "node server.js", "postinstall": "npm run build --prefix client"},
                dependencies={"express": "4"},
            ),
            "server.js": "app.use(express.static('client/build'))",
            "client/package.json": package("react-scripts", build="react-scripts build"),
        },
        {"build": ""},
    ),
    Row(
        "Express with a script of another platform",
        {
            "package.json": package(
                scripts={
                    "start": "node server.js",
                    "heroku-postbuild": "cd web && npm run build",
                },
                dependencies={"express": "4"},
            ),
            "server.js": "",
        },
        {"build": "npm run heroku-postbuild"},
    ),
    Row(
        "Remix",
        {"package.json": package("@remix-run/serve", "vite", build="remix vite:build")},
        {"framework": "Remix", "start": "npx remix-serve ./build/server/index.js"},
    ),
    Row(
        "React Router",
        {"package.json": package("@react-router/serve", "vite")},
        {"framework": "React Router", "build": "npx react-router build"},
    ),
    Row(
        "SvelteKit for Node",
        {"package.json": package("@sveltejs/kit", "@sveltejs/adapter-node", "vite", build="vite build")},
        {"framework": "SvelteKit", "start": "node build"},
    ),
    Row(
        "SvelteKit as files",
        {"package.json": package("@sveltejs/kit", "@sveltejs/adapter-static", "vite", build="vite build")},
        {"framework": "SvelteKit", "static_folder": "build"},
    ),
    Row(
        "Astro as files",
        {"package.json": package("astro", start="astro dev", build="astro build")},
        {"framework": "Astro", "static_folder": "dist", "start": ""},
    ),
    Row(
        "Astro for Node",
        {"package.json": package("astro", "@astrojs/node", build="astro build")},
        {"static_folder": "", "start": "env HOST=0.0.0.0 node ./dist/server/entry.mjs"},
    ),
    Row(
        "Vite",
        {"package.json": package("vite", "vue", build="vite build"), "pnpm-lock.yaml": "", "index.html": ""},
        {
            "language": "Node",
            "framework": "Vite",
            "static_folder": "dist",
            "install": "pnpm install --frozen-lockfile",
            "build": "pnpm run build",
        },
    ),
    Row(
        "Vite with another folder",
        {
            "package.json": package("vite"),
            "vite.config.ts": "export default {build: {outDir: './public_html/'}}",
        },
        {"static_folder": "public_html", "build": "npx vite build"},
    ),
    Row(
        "Vite beside Express",
        {"package.json": package("vite", "express", start="node server.js", build="vite build")},
        {"static_folder": "", "start": "npm run start", "build": "npm run build"},
    ),
    Row(
        "Create React App",
        {"package.json": package("react-scripts", start="react-scripts start", build="react-scripts build")},
        {"framework": "Create React App", "static_folder": "build", "start": ""},
    ),
    Row(
        "Create React App that routes in the browser",
        {"package.json": package("react-scripts", "react-router-dom", build="react-scripts build")},
        {"static_folder": "build", "static_fallback": "index.html"},
        {"static_fallback": "package.json names react-router-dom, which routes in the browser."},
    ),
    Row(
        "Vite without a router",
        {"package.json": package("vite", build="vite build")},
        {"static_folder": "dist", "static_fallback": ""},
    ),
    Row(
        "many pages beside a router",
        {"package.json": package("gatsby", "@reach/router", build="gatsby build")},
        {"static_folder": "public", "static_fallback": ""},
    ),
    Row(
        "Angular",
        {
            "package.json": package("@angular/core", start="ng serve", build="ng build"),
            "angular.json": '{"projects": {"shop": {"architect": {"build": '
            '{"builder": "@angular-devkit/build-angular:application", "options": {}}}}}}',
        },
        {"framework": "Angular", "static_folder": "dist/shop/browser", "start": ""},
    ),
    Row(
        "Vue",
        {"package.json": package("@vue/cli-service", build="vue-cli-service build")},
        {"framework": "Vue", "static_folder": "dist"},
    ),
    Row("Gatsby", {"package.json": package("gatsby")}, {"static_folder": "public"}),
    Row("Docusaurus", {"package.json": package("@docusaurus/core")}, {"static_folder": "build"}),
    Row("Eleventy", {"package.json": package("@11ty/eleventy")}, {"static_folder": "_site"}),
    Row(
        "a packageManager",
        {
            "package.json": package("express", start="node .", packageManager="pnpm@9.1.0"),
            ".nvmrc": "v22.1\n",
        },
        {"package_manager": "pnpm", "install": "pnpm install", "language_version": "22.1"},
    ),
    Row(
        "a newer yarn",
        {"package.json": package("express", packageManager="yarn@4.1.0"), "yarn.lock": "", "index.js": ""},
        {"install": "yarn install --immutable"},
    ),
    Row(
        "bun",
        {"package.json": package("hono", start="bun run index.ts"), "bun.lockb": ""},
        {"package_manager": "bun", "start": "bun run start", "framework": "Hono"},
    ),
    Row(
        "the engines of package.json",
        {"package.json": package("express", start="node .", engines={"node": ">=18"})},
        {"language_version": ">=18"},
    ),
    Row(
        "Next.js that is exported, with the usual start script",
        {
            "package.json": package(
                scripts={"build": "next build", "start": "next start"}, dependencies={"next": "14"}
            ),
            "next.config.mjs": "const nextConfig = { output: 'export', trailingSlash: true };\n",
        },
        {"static_folder": "out", "start": "", "port": 0},
    ),
    Row(
        "Next.js that is exported, with a server of its own",
        {
            "package.json": package(
                scripts={"build": "next build", "start": "node server.js"}, dependencies={"next": "14"}
            ),
            "next.config.mjs": "export default { output: 'export' };\n",
        },
        {"static_folder": "", "start": "npm run start"},
    ),
    Row(
        "a server of TypeScript that only nodemon starts",
        {
            "package.json": package(
                "express", main="main.js", scripts={"start:dev": "nodemon"}, devDependencies={"ts-node": "10"}
            ),
            "nodemon.json": '{"watch": ["src"], "exec": "ts-node ./src/main.ts"}',
            "src/main.ts": "",
        },
        {"start": "npx ts-node src/main.ts", "framework": "Express"},
        {"start": "nodemon.json runs src/main.ts."},
    ),
    Row(
        "a server whose script for development watches a file",
        {
            "package.json": package(
                "fastify", scripts={"dev": "cross-env A=1 nodemon --watch . backend/run.js"}
            ),
            "backend/run.js": "",
        },
        {"start": "node backend/run.js"},
        {
            "start": "The script dev of package.json runs backend/run.js: `cross-env A=1 nodemon --watch . "
            "backend/run.js`."
        },
    ),
    Row(
        "a server of TypeScript whose script for development watches it, with paths",
        {
            "package.json": package(
                "koa",
                scripts={"dev": "ts-node-dev -r tsconfig-paths/register src/web.ts"},
                devDependencies={"ts-node-dev": "2", "tsconfig-paths": "4"},
            ),
            "src/web.ts": "",
        },
        {"start": "npx ts-node-dev --transpile-only -r tsconfig-paths/register src/web.ts"},
    ),
    Row(
        "a server of TypeScript without scripts, and tsx",
        {"package.json": package("hono", "tsx"), "src/index.ts": ""},
        {"start": "npx tsx src/index.ts"},
    ),
]
