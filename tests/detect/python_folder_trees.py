"""Trees of Python that depend on their folder, by imports or a file of SQLite, and their recipes."""

from __future__ import annotations

from tests.detect.trees import DJANGO, FASTAPI, FLASK, GUNICORN, UVICORN, Row

ROWS = [
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
]
