"""A small application for each page of docs/frameworks: what is detected in it stands on the page."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from tests.detect.trees import FASTAPI, FLASK, MANAGE, package

GRADLE = "plugins { id 'org.springframework.boot' version '3.4.0' }\njava.toolchain.languageVersion = 21\n"
POM = """<project><artifactId>shop</artifactId><version>1</version><packaging>jar</packaging>
<properties><java.version>21</java.version></properties>
<dependencies><dependency><groupId>org.springframework.boot</groupId>
<artifactId>spring-boot-starter-web</artifactId></dependency></dependencies>
<build><plugins><plugin><artifactId>spring-boot-maven-plugin</artifactId></plugin></plugins></build></project>
"""

SAMPLES: Final[Mapping[str, Mapping[str, str]]] = {
    "django": {
        "requirements.txt": "django\npsycopg\n",
        "manage.py": MANAGE,
        "shop/wsgi.py": "application = 1\n",
        "shop/settings.py": "import os\nSECRET_KEY = os.environ['SECRET_KEY']\n"
        "ALLOWED_HOSTS = os.environ['ALLOWED_HOSTS'].split(',')\nSTATIC_ROOT = 'static'\n",
    },
    "flask": {"requirements.txt": "flask\n", "app.py": FLASK},
    "fastapi": {
        "pyproject.toml": '[project]\nname = "shop"\ndependencies = ["fastapi"]\n',
        "uv.lock": "",
        "main.py": FASTAPI,
    },
    "streamlit": {"requirements.txt": "streamlit\n", "app.py": "import streamlit as st\nst.write('hello')\n"},
    "celery": {
        "requirements.txt": "celery[redis]\n",
        "tasks.py": "from celery import Celery\napp = Celery('tasks')\n",
    },
    "express": {
        "package.json": package("express", start="node server.js"),
        "package-lock.json": "{}",
        "server.js": "",
    },
    "nest": {
        "package.json": package("@nestjs/core", build="nest build"),
        "package-lock.json": "{}",
        "nest-cli.json": "{}",
    },
    "nextjs": {
        "package.json": package("next", build="next build", start="next start"),
        "package-lock.json": "{}",
    },
    "nuxt": {"package.json": package("nuxt", build="nuxt build"), "pnpm-lock.yaml": ""},
    "react-router": {
        "package.json": package(
            "@react-router/node",
            "@react-router/serve",
            "@react-router/dev",
            build="react-router build",
            start="react-router-serve ./build/server/index.js",
        ),
        "package-lock.json": "{}",
    },
    "sveltekit": {
        "package.json": package("@sveltejs/kit", "@sveltejs/adapter-node", "vite", build="vite build"),
        "package-lock.json": "{}",
        "svelte.config.js": "import adapter from '@sveltejs/adapter-node';\n",
    },
    "astro": {"package.json": package("astro", build="astro build"), "package-lock.json": "{}"},
    "vite": {"package.json": package("vite", "react", build="vite build"), "package-lock.json": "{}"},
    "angular": {
        "package.json": package("@angular/core", build="ng build"),
        "package-lock.json": "{}",
        "angular.json": json.dumps(
            {"projects": {"shop": {"architect": {"build": {"builder": "@angular/build:application"}}}}}
        ),
    },
    "html": {"index.html": "<h1>Shop</h1>\n"},
    "go": {
        "go.mod": "module shop\n\ngo 1.24\n\nrequire github.com/gin-gonic/gin v1.10.0\n",
        "go.sum": "",
        "main.go": 'package main\n\nimport "github.com/gin-gonic/gin"\n',
    },
    "rust": {
        "Cargo.toml": '[package]\nname = "shop"\nedition = "2021"\n\n[dependencies]\naxum = "0.8"\n',
        "Cargo.lock": "",
        "src/main.rs": "fn main() {}\n",
    },
    "spring-boot": {
        "pom.xml": POM,
        "mvnw": "",
        ".mvn/wrapper/maven-wrapper.properties": "",
        "src/main/java/Shop.java": "",
    },
    "rails": {
        "Gemfile": "source 'https://rubygems.org'\nruby '3.4.1'\ngem 'rails'\ngem 'pg'\ngem 'puma'\n",
        "Gemfile.lock": "",
        "config.ru": "",
        "config/application.rb": "",
        "config/database.yml": "",
        "config/routes.rb": "get 'up' => 'rails/health#show'\n",
        "bin/rails": "",
        "app/assets/config/manifest.js": "",
    },
    "laravel": {
        "composer.json": '{"require": {"php": "^8.2", "laravel/framework": "^12"}}',
        "composer.lock": "{}",
        "artisan": "",
        "public/index.php": "",
    },
    "deno": {
        "deno.json": '{"tasks": {"start": "deno run -A main.ts"}}',
        "main.ts": "Deno.serve(() => new Response('hi'))\n",
    },
    "dotnet": {
        "Shop.csproj": '<Project Sdk="Microsoft.NET.Sdk.Web">'
        "<TargetFramework>net8.0</TargetFramework></Project>",
        "Program.cs": "",
    },
    "phoenix": {
        "mix.exs": 'def project, do: [app: :shop, elixir: "~> 1.17", deps: [{:phoenix, "~> 1.7"}]]\n',
        "mix.lock": "",
    },
    "perl": {
        "cpanfile": "requires 'perl', '5.036';\nrequires 'Mojolicious', '>= 9.0';\nrequires 'Mojo::Pg';\n",
        "script/shop": "",
        "lib/Shop.pm": "",
    },
    "generated-sites": {"mkdocs.yml": "site_name: Handbook\n", "docs/index.md": "# Handbook\n"},
}
