"""Files that several trees share, and the form of a row: a tree, and the recipe that it must give."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple

from windlass.detect import Tree

FLASK = "from flask import Flask\napp = Flask(__name__)\n"
FASTAPI = "from fastapi import FastAPI\n\napp: FastAPI = FastAPI(title='shop')\n"
MANAGE = 'import os\nos.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.settings")\n'
DJANGO = {"manage.py": MANAGE, "shop/wsgi.py": "application = 1\n", "shop/settings.py": "DEBUG = True\n"}
GRADLEW = {"gradlew": "", "gradle/wrapper/gradle-wrapper.jar": ""}
MVNW = {"mvnw": "#!/bin/sh\n", ".mvn/wrapper/maven-wrapper.properties": ""}
GUNICORN = "--bind 0.0.0.0:${PORT:-8000} --workers ${WEB_CONCURRENCY:-2}"
UVICORN = "--host 0.0.0.0 --port ${PORT:-8000}"


def tree_of(files: Mapping[str, str | bytes]) -> Tree:
    def read(path: str, most: int) -> bytes:
        content = files[path]
        return (content if isinstance(content, bytes) else content.encode())[:most]

    return Tree(files, read)


def package(*names: str, start: str = "", build: str = "", **more: object) -> str:
    scripts = {name: script for name, script in (("start", start), ("build", build)) if script}
    return json.dumps({"dependencies": dict.fromkeys(names, "1"), "scripts": scripts} | more)


class Row(NamedTuple):
    name: str
    files: dict[str, str | bytes]
    values: dict[str, object]
    reasons: dict[str, str] = {}
