"""Trees with hints or several languages, and the recipes that they must give."""

from __future__ import annotations

from tests.detect.trees import DJANGO, FLASK, Row, package

ROWS = [
    Row(
        "a Procfile with every type",
        {
            "Procfile": "# types\nrelease: ./migrate\nworker: python work.py\nweb:  gunicorn app:y\n",
            "requirements.txt": "flask\n",
            "app.py": FLASK,
        },
        {
            "framework": "Flask",
            "start": "gunicorn app:y",
            "release": "./migrate",
            "processes": ["web", "worker"],
            "added_packages": [],
        },
        {"start": "The Procfile names it as web."},
    ),
    Row(
        "a Procfile with one process of another name",
        {"Procfile": "api: gunicorn app:y\n", "requirements.txt": "flask\n", "app.py": FLASK},
        {"start": "gunicorn app:y", "processes": ["api"]},
        {"start": "The Procfile names it as api."},
    ),
    Row(
        "a render.yaml",
        {
            "render.yaml": "services:\n  - type: pserv\n    name: db\n    startCommand: db\n"
            "  - type: web\n    startCommand: uvicorn main:y\n    healthCheckPath: /up\n"
            "    envVars:\n      - key: startCommand\n",
            "main.py": "",
        },
        {"start": "uvicorn main:y", "health_path": "/up", "port": 10000},
        {"start": "render.yaml names it as startCommand."},
    ),
    Row(
        "a render.yaml of another folder",
        {"render.yaml": "services:\n- type: web\n  rootDir: api\n  startCommand: x\n", "main.py": ""},
        {"start": "python main.py", "port": 0},
    ),
    Row(
        "a fly.toml",
        {
            "fly.toml": '[deploy]\nrelease_command="migrate"\n[processes]\napp="serve"\nworker="work"\n'
            '[http_service]\ninternal_port=9000\n[[http_service.checks]]\npath="/up"\n',
            "main.py": "",
        },
        {
            "release": "migrate",
            "start": "serve",
            "port": 9000,
            "health_path": "/up",
            "processes": ["app", "worker"],
        },
    ),
    Row(
        "an app.json",
        {"app.json": '{"healthchecks": {"web": [{"path": "/up"}]}}', "main.py": ""},
        {"health_path": "/up"},
    ),
    Row(
        "the port of a Dockerfile",
        {"Dockerfile": "FROM x\nEXPOSE 9090/tcp\n", "main.py": ""},
        {"port": 9090},
        {"port": "The Dockerfile exposes it."},
    ),
    # Several at once
    Row(
        "Django with tools of Node",
        {"requirements.txt": "django\n", **DJANGO, "package.json": package("tailwindcss")},
        {"language": "Python", "framework": "Django"},
    ),
    Row(
        "Node with tools of Python",
        {
            "pyproject.toml": "[tool.ruff]\n",
            "package.json": package("express", start="node a.js"),
            "a.js": "",
        },
        {"language": "Node"},
    ),
]
