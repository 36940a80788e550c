"""Trees of Python whose files serve when they are run, and the recipes that they must give."""

from __future__ import annotations

from tests.detect.trees import FASTAPI, FLASK, GUNICORN, Row

ROWS = [
    Row(
        "Flask that serves when it is run",
        {
            "requirements.txt": "flask\n",
            "app.py": FLASK + 'if __name__ == "__main__":\n    app.run(host="0.0.0.0", port=8080)\n',
        },
        {"framework": "Flask", "start": "python app.py", "added_packages": [], "port": 8080},
    ),
    Row(
        "FastAPI with a main.py that serves it",
        {
            "requirements.txt": "fastapi\nuvicorn\n",
            "shop/api.py": FASTAPI,
            "main.py": "import uvicorn\nuvicorn.run('shop.api:app', host='0.0.0.0')\n",
        },
        {"framework": "FastAPI", "start": "python main.py", "port": 8000},
        {"start": "main.py serves when it is run."},
    ),
    Row(
        "Flask that serves on the port that a variable of its own names",
        {
            "requirements.txt": "flask\n",
            "app.py": FLASK
            + 'if __name__ == "__main__":\n    app.run(port=int(os.getenv("SHOP_PORT", "9090")))\n',
        },
        {"start": f"gunicorn app:app {GUNICORN}", "port": 8000},
    ),
    Row(
        "Flask that serves its own machine when it is run",
        {
            "requirements.txt": "flask\n",
            "app.py": FLASK + 'if __name__ == "__main__":\n    print("http://localhost:5000")\n'
            '    app.run(\n        host="127.0.0.1",\n        port=int(os.environ.get("PORT", 5000)),\n'
            "        debug=True\n    )\n",
        },
        {"start": f"gunicorn app:app {GUNICORN}", "port": 8000},
    ),
    Row(
        "Flask that makes its tables before it serves its own machine",
        {
            "requirements.txt": "flask\n",
            "app.py": FLASK + 'if __name__ == "__main__":\n    create_tables()\n    app.run(port=5000)\n',
        },
        {"start": "python app.py", "port": 5000},
    ),
    Row(
        "Flask whose host a variable names",
        {
            "requirements.txt": "flask\n",
            "app.py": FLASK + 'if __name__ == "__main__":\n    app.run(host=os.environ["HOST"], port=5000)\n',
        },
        {"start": "python app.py", "port": 5000},
    ),
    Row(
        "Flask that serves on the port that a variable names",
        {
            "requirements.txt": "flask\n",
            "app.py": FLASK
            + 'import os\nif __name__ == "__main__":\n    app.run(port=os.getenv("PORT", default=5050))\n',
        },
        {"start": f"gunicorn app:app {GUNICORN}", "port": 8000},
    ),
    Row(
        "Flask with the run of a tutorial",
        {
            "requirements.txt": "flask\n",
            "app.py": FLASK + 'if __name__ == "__main__":\n    app.run(debug=True)\n',
        },
        {"start": f"gunicorn app:app {GUNICORN}"},
    ),
    *(
        Row(
            f"{name} that serves itself at the port of its framework",
            {
                "requirements.txt": f"{module}\n",
                "app.py": f"from {module} import {name}\ndef make_app():\n    return {name}(__name__)\n"
                "if __name__ == '__main__':\n    app = make_app()\n    app.run(host='0.0.0.0', debug=True)\n",
            },
            {"start": "python app.py", "port": port},
        )
        for module, name, port in (
            ("flask", "Flask", 5000),
            ("quart", "Quart", 5000),
            ("sanic", "Sanic", 8000),
        )
    ),
]
