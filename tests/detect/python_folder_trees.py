"""Trees of Python that depend on their folder, by imports or a file of SQLite, and their recipes."""

from __future__ import annotations

from tests.detect.trees import DJANGO, FASTAPI, FLASK, GUNICORN, UVICORN, Row

ROWS = [
    Row(
        "requirements that do not name all that the project needs",
        {
            "main.py": "print(1)\n",
            "requirements.txt": "gunicorn==22.0.0\n",
            "pyproject.toml": '[project]\nname="shop"\ndependencies=["Fast_API[standard]>=1", "gunicorn"]\n',
        },
        {"install": "pip install -r requirements.txt 'Fast_API[standard]>=1'"},
        {"install": "requirements.txt is there, and pyproject.toml names fast-api besides."},
    ),
    Row(
        "requirements that install the project",
        {
            "main.py": "print(1)\n",
            "requirements.txt": "-e .\ngunicorn\n",
            "pyproject.toml": '[project]\nname="shop"\ndependencies=["fastapi"]\n',
        },
        {"install": "pip install -r requirements.txt"},
    ),
    Row(
        "requirements with hashes, to which nothing can be added",
        {
            "main.py": "print(1)\n",
            "requirements.txt": "gunicorn==22.0.0 --hash=sha256:aa\n",
            "pyproject.toml": '[project]\nname="shop"\ndependencies=["fastapi"]\n',
        },
        {"install": "pip install -r requirements.txt"},
    ),
    Row(
        "Flask whose views another module of the package loads",
        {
            "requirements.txt": "flask\n",
            "startup.py": "from shop.web import app\n",
            "shop/__init__.py": FLASK,
            "shop/web.py": "from . import app\nfrom . import views\n",
            "shop/views.py": "from . import app\n@app.route('/')\ndef home():\n    return 'x'\n",
        },
        {"framework": "Flask", "start": f"gunicorn startup:app {GUNICORN}"},
        {
            "start": "requirements.txt names Flask; shop/__init__.py defines `app`, which startup.py imports "
            "along with other modules."
        },
    ),
    Row(
        "Flask whose views are loaded by its own module",
        {
            "requirements.txt": "flask\n",
            "run.py": "from shop import app\nfrom shop import models\n",
            "shop/__init__.py": FLASK + "from . import views, models\n",
        },
        {"start": f"gunicorn shop:app {GUNICORN}"},
    ),
    Row(
        "FastAPI whose views another module adds",
        {
            "requirements.txt": "fastapi\n",
            "app.py": FASTAPI,
            "models.py": "from app import app\nTITLE = app.title\n",
            "service.py": "from app import app\n@app.get('/')\ndef home() -> str:\n    return 'x'\n",
        },
        {"start": f"uvicorn service:app {UVICORN}"},
    ),
    Row(
        "Flask that a module without views imports, beside other modules",
        {
            "requirements.txt": "flask\n",
            "app.py": FLASK,
            "settings.py": "",
            "models.py": "from app import app\nimport settings\n",
        },
        {"start": f"gunicorn app:app {GUNICORN}"},
    ),
    Row(
        "FastAPI that is run in its own folder",
        {
            "requirements.txt": "fastapi\nuvicorn\n",
            "app/main.py": f"from routes import shop\n{FASTAPI}",
            "app/routes/__init__.py": "",
        },
        {"start": f"uvicorn main:app {UVICORN} --app-dir app"},
    ),
    Row(
        "FastAPI whose folder holds modules that are not its own",
        {
            "requirements.txt": "fastapi\nuvicorn\nredis\n",
            "app/main.py": f"import logging, redis\nfrom app.routes import shop\n{FASTAPI}",
            **dict.fromkeys(("app/__init__.py", "app/routes.py", "app/redis.py", "app/logging.py"), ""),
        },
        {"start": f"uvicorn app.main:app {UVICORN}"},
    ),
    Row(
        "Flask and Celery that are run in their own folder",
        {
            "requirements.txt": "flask\ncelery\n",
            "shop/app.py": f"import store\n{FLASK}",
            "shop/store.py": "",
            "shop/tasks.py": "import store\nfrom celery import Celery\nqueue = Celery()\n",
        },
        {"start": f"gunicorn app:app {GUNICORN} --pythonpath shop", "processes": ["web", "worker"]},
    ),
    Row(
        "Celery that is run in its own folder",
        {
            "requirements.txt": "celery\n",
            "shop/store.py": "",
            "shop/tasks.py": "import store\nfrom celery import Celery\nqueue = Celery()\n",
        },
        {"start": "celery --workdir shop -A tasks worker --loglevel INFO"},
    ),
    Row(
        "Django with SQLite in its folder",
        {
            "requirements.txt": "Django\n",
            **DJANGO,
            "shop/settings.py": "DATABASES = {'default': {'ENGINE': 'django.db.backends.sqlite3'}}\n",
        },
        {
            "start": f"python manage.py migrate --noinput && gunicorn shop.wsgi:application {GUNICORN}",
            "release": "python manage.py migrate --noinput",
        },
    ),
    Row(
        "Django with SQLite, and a Procfile",
        {
            "requirements.txt": "Django\n",
            **DJANGO,
            "shop/settings.py": "DATABASES = {'default': {'ENGINE': 'django.db.backends.sqlite3'}}\n",
            "Procfile": "web: gunicorn shop.wsgi\n",
        },
        {"start": "gunicorn shop.wsgi"},
    ),
    Row(
        "Django in a folder below the file that declares the packages",
        {
            "requirements.txt": "Django\ngunicorn\n",
            **{f"src/{path}": text for path, text in DJANGO.items()},
            "src/shop/settings.py": "STATIC_ROOT = 'static'\nINSTALLED_APPS = []\nALLOWED_HOSTS = ['*']\n",
        },
        {
            "framework": "Django",
            "install": "pip install -r requirements.txt",
            "build": "cd src && python manage.py collectstatic --noinput",
            "release": "cd src && python manage.py migrate --noinput",
            "start": f"cd src && gunicorn shop.wsgi:application {GUNICORN}",
            "port": 8000,
            "candidates": [],
            "problems": [],
        },
        {
            "framework": "src/manage.py names the settings shop.settings.",
            "start": "shop/wsgi.py is there, in src, and requirements.txt is above it.",
        },
    ),
    Row(
        "an application that declares no packages, with well-known ones in its code",
        {
            "main.py": "from config import app\nfrom models import User\nimport acme_client\n",
            "config.py": "from flask import Flask\nfrom flask_cors import CORS\napp = Flask(__name__)\n",
            "models.py": "import json\nfrom flask_sqlalchemy import SQLAlchemy\nfrom PIL import Image\n",
        },
        {
            "framework": "Flask",
            "added_packages": ["gunicorn", "flask", "flask-cors", "Pillow", "flask-sqlalchemy"],
        },
        {"added_packages": "The start command needs it, and no file names a server."},
    ),
    Row(
        "an application with modules of its own that have the names of packages",
        {"app.py": FLASK + "import redis\nimport openai.client\n", "redis.py": "", "openai/client.py": ""},
        {"added_packages": ["gunicorn", "flask", "openai"]},
    ),
    Row(
        "an application that declares a package, and imports others",
        {"requirements.txt": "flask\n", "app.py": FLASK + "import redis\n"},
        {"added_packages": ["gunicorn"]},
    ),
]
