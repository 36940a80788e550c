"""Plain Python programs without a framework: those that serve get a port, and workers get none."""

from __future__ import annotations

import pytest

from tests.detect.trees import FLASK, tree_of
from tests.tables import rows
from windlass.detect import detect
from windlass.detect.dockerfile import dockerfile

MAIN = "if __name__ == '__main__':\n    run()\n"


def port_of(files) -> tuple[int, str]:
    recipe = detect(tree_of(files))
    assert recipe.problems == []
    return recipe.port, recipe.reasons.get("port", "")


@rows(
    ("text", "port"),
    [
        ("from http.server import HTTPServer, H\nHTTPServer(('', 8123), H).serve_forever()\n", 8123),
        ("import http.server\nPORT = 9000\nhttp.server.ThreadingHTTPServer(('', PORT), H)\n", 9000),
        ("import socketserver\nwith socketserver.TCPServer(('0.0.0.0', 8001), H) as s:\n    s.x()\n", 8001),
        ("from wsgiref.simple_server import make_server\nmake_server('', 8002, app)\n", 8002),
        ("from aiohttp import web\nweb.run_app(app, port=8003)\n", 8003),
        ("import tornado.web\nmake_app().listen(8004)\n", 8004),
        ("import asyncio\nasyncio.start_server(serve, '0.0.0.0', 8005)\n", 8005),
        ("from waitress import serve\nserve(app)\n", 8000),
        ("from gevent.pywsgi import WSGIServer\nWSGIServer(('', 99999), app)\n", 8000),
    ],
)
def test_a_plain_program_that_starts_a_server_gets_its_port(text, port):
    assert port_of({"main.py": text}) == (port, "main.py starts a server.")
    assert port_of({"main.py": f"# {text.splitlines()[-1]}\nprint(1)\n"}) == (0, "")


@pytest.mark.parametrize(
    ("text", "port"),
    [
        ("import os\nrun(int(os.environ['PORT']))\n", 8000),
        ("import os\nrun(os.environ.get('PORT', 5000))\n", 5000),
        ('from os import getenv\nrun(getenv("PORT", "5001"))\n', 5001),
        ("from environs import env\nrun(env.int('PORT', 5002))\n", 5002),
    ],
)
def test_a_plain_program_that_reads_port_gets_a_port(text, port):
    assert port_of({"app.py": text}) == (port, "app.py reads the variable PORT.")


@rows(
    "text",
    [
        "while True:\n    work()\n",
        "import os\nconnect(os.environ['DB_HOST'], os.environ['DB_PORT'])\n",
        "import os\nmail(os.getenv('SMTP_PORT', '25'))\n",
        "for message in client.pubsub().listen():\n    work(message)\n",
        "import prometheus_client\nprometheus_client.start_http_server(9000)\n",
        "import requests\nrequests.get('http://127.0.0.1:8000')\n",
        "import asyncio\nasyncio.open_connection('db', 5432)\n",
        "from flask import Flask  # no requirement names it\n",
        "PORT = 5432\nconnect(port=PORT)\n",
    ],
)
def test_a_plain_worker_gets_no_port(text):
    assert port_of({"main.py": text}) == (0, "")


def test_a_server_started_in_an_imported_module_sets_the_port():
    server = "from aiohttp import web\ndef run():\n    web.run_app(app, port=7000)\n"
    reason = "shop/inner/listener.py starts a server."
    files = {
        "main.py": f"import sys, shop.start\n{MAIN}",
        "shop/start.py": "from .inner import listener\n",
        "shop/inner/listener.py": server,
    }
    assert port_of(files) == (7000, reason)
    assert port_of({**files, "shop/start.py": "from ..inner import listener\n"}) == (0, "")
    assert port_of({**files, "main.py": f"import sys\n{MAIN}"}) == (0, "")


def test_the_one_script_of_a_project_that_serves_gets_a_port():
    project = '[project]\nname="shop"\n[project.scripts]\nshop="shop.cli:run"\n'
    serves = "import os\ndef run():\n    serve(os.environ['PORT'])\n"
    files = {"pyproject.toml": project, "src/shop/cli.py": serves}
    assert port_of(files) == (8000, "src/shop/cli.py reads the variable PORT.")
    assert port_of({**files, "src/shop/cli.py": "def run():\n    work()\n"}) == (0, "")


def test_files_that_import_each_other_are_read_once():
    assert port_of({"main.py": "import app\n", "app.py": "import main\nfrom main import app\n"}) == (0, "")


def test_a_process_that_the_author_names_as_a_worker_gets_no_port_by_its_file():
    serves = "import os\nrun(os.environ['PORT'])\n"
    assert port_of({"main.py": serves, "Procfile": "worker: python main.py\n"}) == (0, "")
    assert port_of({"main.py": serves, "Procfile": "web: python main.py\n"})[0] == 8080


def test_the_image_of_a_plain_program_exposes_its_port():
    tree = tree_of({"main.py": "import os\nrun(os.environ.get('PORT', '5000'))\n"})
    assert "EXPOSE 5000\n" in dockerfile(detect(tree), tree)
    tree = tree_of({"main.py": "work()\n"})
    assert "EXPOSE" not in dockerfile(detect(tree), tree)


def test_a_framework_chooses_the_port_before_a_plain_program():
    files = {"requirements.txt": "flask\n", "app.py": FLASK, "main.py": "import os\nos.environ['PORT']\n"}
    assert port_of(files) == (8000, "The start command listens there unless PORT names another.")
