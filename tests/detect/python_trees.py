"""Trees of Python, and the recipes that they must give."""

from __future__ import annotations

from tests.detect.trees import DJANGO, FASTAPI, FLASK, GUNICORN, UVICORN, Row

ROWS = [
    Row(
        "a project below src, beside requirements",
        {
            "requirements.txt": "flask\n",
            "pyproject.toml": '[project]\nname = "shop"\n[build-system]\nrequires = ["setuptools"]\n',
            "src/shop/__init__.py": "",
            "app.py": FLASK,
        },
        {"install": "pip install -r requirements.txt && pip install --no-deps .", "framework": "Flask"},
        {"install": "requirements.txt is there; the packages of the project are below src."},
    ),
    Row(
        "Streamlit by its file alone",
        {"streamlit_app.py": "import streamlit as st\nst.title('x')\n"},
        {"framework": "Streamlit", "added_packages": ["streamlit"], "port": 8501},
    ),
    # Python: frameworks
    Row(
        "Flask without a server",
        {"requirements.txt": "Flask==3.0\n", "app.py": FLASK},
        {
            "language": "Python",
            "framework": "Flask",
            "start": f"gunicorn app:app {GUNICORN}",
            "added_packages": ["gunicorn"],
            "install": "pip install -r requirements.txt",
            "port": 8000,
        },
        {
            "start": "requirements.txt names Flask; app.py defines `app`.",
            "added_packages": "The start command needs it, and no file names a server.",
        },
    ),
    Row(
        "Flask with gunicorn",
        {"requirements.txt": "flask\ngunicorn>=20\n", "wsgi.py": FLASK.replace("app", "server")},
        {"start": f"gunicorn wsgi:server {GUNICORN}", "added_packages": []},
    ),
    Row(
        "Flask with waitress",
        {"requirements.txt": "flask\nwaitress\n", "app.py": FLASK},
        {"start": "waitress-serve --listen=0.0.0.0:${PORT:-8000} app:app", "added_packages": []},
    ),
    Row(
        "Flask with a factory in a package",
        {
            "pyproject.toml": '[project]\nname="x"\ndependencies=["Flask"]\n',
            "shop/__init__.py": "from flask import Flask\ndef create_app():\n    return Flask('x')\n",
        },
        {"start": f"gunicorn shop:'create_app()' {GUNICORN}", "install": "pip install ."},
    ),
    Row(
        "Flask that a function of a package makes for main.py",
        {
            "requirements.txt": "flask\n",
            "main.py": "from shop import init_app\napp = init_app()\n",
            "shop/__init__.py": "from flask import Flask\ndef init_app():\n    return Flask('x')\n",
        },
        {"framework": "Flask", "start": f"gunicorn main:app {GUNICORN}"},
    ),
    Row(
        "FastAPI that a function of the same file makes",
        {
            "requirements.txt": "fastapi\nuvicorn\n",
            "app/main.py": "from fastapi import FastAPI\n\n\ndef get_application() -> FastAPI:\n"
            "    application = FastAPI()\n    return application\n\n\napp = get_application()\n",
        },
        {"framework": "FastAPI", "start": f"uvicorn app.main:app {UVICORN}"},
        {"start": "requirements.txt names FastAPI; app/main.py defines `app`."},
    ),
    Row(
        "FastAPI with a function of a name of its own, which needs no arguments",
        {
            "requirements.txt": "fastapi\nuvicorn\n",
            "shop/app.py": "from fastapi import FastAPI\ndef shop(name):\n    return FastAPI(title=name)\n"
            "def get_app() -> FastAPI:\n    return shop('x')\n",
        },
        {"start": f"uvicorn shop.app:get_app {UVICORN} --factory"},
    ),
    Row(
        "FastAPI that another package brings",
        {"requirements.txt": "langserve[all]\n", "app/server.py": FASTAPI},
        {"framework": "FastAPI", "start": f"uvicorn app.server:app {UVICORN}", "added_packages": ["uvicorn"]},
        {"start": "app/server.py defines `app`."},
    ),
    Row(
        "Flask that no file names",
        {"app.py": FLASK},
        {
            "framework": "Flask",
            "start": f"gunicorn app:app {GUNICORN}",
            "added_packages": ["gunicorn", "flask"],
        },
        {"framework": "app.py defines `app`."},
    ),
    Row(
        "commands that a package manager runs in its environment",
        {
            "pyproject.toml": '[project]\nname="x"\ndependencies=["fastapi", "uvicorn"]\n',
            "main.py": FASTAPI,
            "Procfile": "web: uv run --frozen uvicorn main:app\n"
            "release: poetry run a migrate && uv run -- seed.py --now\nworker: pipenv run celery\n",
        },
        {"start": "uvicorn main:app", "release": "a migrate && python seed.py --now"},
    ),
    Row(
        "Chainlit",
        {"requirements.txt": "chainlit\n", "main.py": "import chainlit as cl\n"},
        {
            "framework": "Chainlit",
            "start": "chainlit run main.py --host 0.0.0.0 --port ${PORT:-8000} --headless",
            "port": 8000,
        },
    ),
    Row(
        "Streamlit that no file names",
        {"app.py": "import streamlit as st\nst.write('x')\n"},
        {"framework": "Streamlit", "added_packages": ["streamlit"], "port": 8501},
        {"added_packages": "app.py imports it, and no file names any package."},
    ),
    Row(
        "Flask that only wsgi.py gives a name that servers know",
        {
            "requirements.txt": "flask\n",
            "wsgi.py": "from shop import app\n\napplication = app\n",
            "shop/__init__.py": "from shop.shop import app\n",
            "shop/shop.py": FLASK,
        },
        {"framework": "Flask", "start": f"gunicorn wsgi:app {GUNICORN}"},
        {"start": "requirements.txt names Flask; wsgi.py holds `app`."},
    ),
    Row(
        "Django with settings that a variable of manage.py names",
        {
            "requirements.txt": "django\n",
            "manage.py": "import os\nif __name__ == '__main__':\n"
            "    module = 'shop.production' if 'LIVE' in os.environ else 'shop.development'\n"
            "    os.environ.setdefault('DJANGO_SETTINGS_MODULE', module)\n",
            "shop/production.py": "",
            "shop/wsgi.py": "",
        },
        {"framework": "Django", "start": f"gunicorn shop.wsgi:application {GUNICORN}"},
        {"framework": "manage.py names the settings shop.production."},
    ),
    Row(
        "Flask that an extension of it brings",
        {"requirements.txt": "flask-admin\n", "main.py": FLASK},
        {"framework": "Flask", "start": f"gunicorn main:app {GUNICORN}"},
    ),
    Row(
        "FastAPI with the one script of its project",
        {
            "pyproject.toml": '[project]\nname="x"\ndependencies=["fastapi"]\n'
            '[project.scripts]\nshop="shop:run"\n',
            "shop/main.py": FASTAPI,
        },
        {"framework": "FastAPI", "start": "shop", "added_packages": []},
    ),
    Row(
        "FastAPI with a script that is a program of a dependency",
        {
            "pyproject.toml": '[project]\nname="x"\ndependencies=["fastapi","uvicorn"]\n'
            '[project.scripts]\nserve="uvicorn.main:main"\n',
            "main.py": FASTAPI,
        },
        {"start": f"uvicorn main:app {UVICORN}"},
    ),
    Row(
        "main.py beside the tasks of Celery",
        {
            "requirements.txt": "celery\n",
            "main.py": "print(1)\n",
            "tasks.py": "from celery import Celery\nqueue = Celery('x')\n",
        },
        {"start": "python main.py", "processes": ["web", "worker"]},
    ),
    Row(
        "FastAPI",
        {"requirements.txt": "fastapi\n", "main.py": FASTAPI},
        {"framework": "FastAPI", "start": f"uvicorn main:app {UVICORN}", "added_packages": ["uvicorn"]},
    ),
    Row(
        "FastAPI with its standard extras",
        {"requirements.txt": "fastapi[standard]==0.115\n", "app/main.py": FASTAPI, "app/__init__.py": ""},
        {"start": f"uvicorn app.main:app {UVICORN}", "added_packages": []},
    ),
    Row(
        "FastAPI below src with uv",
        {
            "pyproject.toml": '[project]\nname="x"\nrequires-python=">=3.12"\n'
            'dependencies=["fastapi","uvicorn"]\n',
            "uv.lock": "",
            "src/shop/main.py": FASTAPI,
        },
        {
            "start": f"uvicorn shop.main:app {UVICORN} --app-dir src",
            "package_manager": "uv",
            "install": "uv sync --frozen --no-dev",
            "language_version": ">=3.12",
        },
    ),
    Row(
        "Starlette with hypercorn",
        {
            "requirements.txt": "starlette\nhypercorn\n",
            "app.py": "import starlette.applications\napp = starlette.applications.Starlette()\n",
        },
        {"framework": "Starlette", "start": "hypercorn app:app --bind 0.0.0.0:${PORT:-8000}"},
    ),
    Row(
        "Django",
        {"requirements.txt": "Django\npsycopg2\n", **DJANGO},
        {
            "framework": "Django",
            "start": f"gunicorn shop.wsgi:application {GUNICORN}",
            "release": "python manage.py migrate --noinput",
            "build": "",
            "added_packages": ["gunicorn"],
            "system_packages": ["gcc", "libpq-dev"],
        },
        {"framework": "manage.py names the settings shop.settings."},
    ),
    Row(
        "Django whose manage.py chooses its settings",
        {
            "requirements.txt": "Django\n",
            **DJANGO,
            "manage.py": "name = 'shop.production' if PRODUCTION else 'shop.settings'\n"
            "os.environ.setdefault('DJANGO_SETTINGS_MODULE', name)\n",
        },
        {"framework": "Django", "start": f"gunicorn shop.wsgi:application {GUNICORN}"},
    ),
    Row(
        "Django with collected static files",
        {"requirements.txt": "Django\ngunicorn", **DJANGO, "shop/settings.py": "STATIC_ROOT = 'x'\n"},
        {"build": "python manage.py collectstatic --noinput", "added_packages": []},
    ),
    Row(
        "Django with channels",
        {"requirements.txt": "Django\nchannels\ndaphne\n", **DJANGO, "shop/asgi.py": ""},
        {"start": "daphne --bind 0.0.0.0 --port ${PORT:-8000} shop.asgi:application"},
    ),
    Row(
        "Streamlit",
        {"requirements.txt": "streamlit\n", "dashboard.py": "import streamlit as st\n"},
        {"framework": "Streamlit", "port": 8501, "health_path": "/_stcore/health"},
    ),
    Row(
        "Gradio",
        {"requirements.txt": "gradio\n", "app.py": "import gradio as gr\n"},
        {
            "framework": "Gradio",
            "start": "env GRADIO_SERVER_NAME=0.0.0.0 GRADIO_SERVER_PORT=${PORT:-7860} python app.py",
        },
    ),
    Row(
        "Celery alone",
        {"requirements.txt": "celery\n", "tasks.py": "from celery import Celery\napp = Celery('x')\n"},
        {"framework": "Celery", "start": "celery -A tasks worker --loglevel INFO", "port": 0},
    ),
    Row(
        "Celery beside Flask",
        {
            "requirements.txt": "celery\nflask\ngunicorn\n",
            "app.py": FLASK,
            "tasks.py": "from celery import Celery\nqueue = Celery('x')\n",
        },
        {"framework": "Flask", "processes": ["web", "worker"]},
    ),
    Row(
        "Dash",
        {
            "requirements.txt": "dash\n",
            "app.py": "from dash import Dash\napp = Dash(__name__)\nserver = app.server\n",
        },
        {"framework": "Dash", "start": f"gunicorn app:server {GUNICORN}"},
    ),
    Row(
        "requirements in another file",
        {
            "requirements.txt": "-r requirements/base.txt\n",
            "requirements/base.txt": "flask\n",
            "app.py": FLASK,
        },
        {"start": f"gunicorn app:app {GUNICORN}"},
    ),
    # Python: package managers and versions
    Row(
        "Poetry",
        {
            "pyproject.toml": '[tool.poetry.dependencies]\npython = "^3.11"\nfastapi = "*"\n',
            "poetry.lock": "",
            "main.py": FASTAPI,
        },
        {"package_manager": "poetry", "language_version": "^3.11", "start": f"uvicorn main:app {UVICORN}"},
    ),
    Row(
        "PDM",
        {"pyproject.toml": "[project]\nname='x'\n", "pdm.lock": "", "main.py": ""},
        {
            "package_manager": "pdm",
            "install": "pdm install --prod --frozen-lockfile",
            "start": "python main.py",
        },
    ),
    Row(
        "Hatch",
        {
            "pyproject.toml": "[build-system]\nbuild-backend='hatchling.build'\n[project]\nname='x'\n"
            "[project.scripts]\nserve='x:main'\n"
        },
        {"package_manager": "pip", "install": "pip install .", "start": "serve"},
        {"install": "pyproject.toml is built by hatchling.build."},
    ),
    Row(
        "Pipenv",
        {
            "Pipfile": "[packages]\nflask='*'\n[requires]\npython_version='3.12'\n",
            "Pipfile.lock": "",
            "app.py": FLASK,
        },
        {"package_manager": "pipenv", "language_version": "3.12", "start": f"gunicorn app:app {GUNICORN}"},
    ),
    Row(
        "the version in a Pipfile beside pyproject.toml",
        {
            "Pipfile": "[packages]\nflask='*'\n[requires]\npython_full_version='3.12.4'\n",
            "pyproject.toml": "[project]\nname='x'\nrequires-python='>=3.9'\n",
            "app.py": FLASK,
        },
        {"language_version": "3.12.4"},
        {"language_version": "Pipfile names it."},
    ),
    Row(
        "the version in .python-version",
        {".python-version": "3.13\n", "main.py": ""},
        {"language_version": "3.13"},
        {"language_version": ".python-version names it."},
    ),
    Row(
        "the version in runtime.txt",
        {"runtime.txt": "python-3.11.4", "main.py": ""},
        {"language_version": "3.11.4"},
    ),
    Row(
        "a range that leaves a version out",
        {"pyproject.toml": '[project]\nname="x"\nrequires-python=">=3.8,<3.12,!=3.9.7"\n', "main.py": ""},
        {"language_version": ">=3.8,<3.12,!=3.9.7"},
    ),
    Row(
        "the version in .tool-versions",
        {".tool-versions": "nodejs 20\npython 3.12.1\n", "main.py": ""},
        {"language_version": "3.12.1"},
    ),
]
