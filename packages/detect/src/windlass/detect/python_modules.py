"""Python modules by name: modules missing in newer Python or setuptools versions, standard library modules,
and modules whose package has another name.

Texts with several names are alternatives of a regular expression.
"""

from __future__ import annotations

import sys
from typing import Final

REMOVED_MODULES: Final = "imp|asyncore|smtpd|cgi|crypt|telnetlib|pipes"
LAST_WITH_REMOVED: Final = "3.11"
"""The newest Python that contains all removed modules."""
SETUPTOOLS_MODULES: Final = "pkg_resources|distutils"
ADD_SETUPTOOLS: Final = "Add setuptools<81 to the dependencies"
STANDARD_MODULES: Final = "|".join(sorted(sys.stdlib_module_names))
_PACKAGES_BY_MODULE: Final = {
    "bs4": "beautifulsoup4",
    "corsheaders": "django-cors-headers",
    "crispy_forms": "django-crispy-forms",
    "cv2": "opencv-python-headless",
    "dateutil": "python-dateutil",
    "debug_toolbar": "django-debug-toolbar",
    "decouple": "python-decouple",
    "dj_database_url": "dj-database-url",
    "dotenv": "python-dotenv",
    "environ": "django-environ",
    "git": "GitPython",
    "jose": "python-jose",
    "jwt": "PyJWT",
    "magic": "python-magic",
    "MySQLdb": "mysqlclient",
    "PIL": "Pillow",
    "psycopg2": "psycopg2-binary",
    "rest_framework": "djangorestframework",
    "serial": "pyserial",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "yaml": "PyYAML",
}
_WELL_KNOWN_MODULES: Final = frozenset({
    "aiofiles", "aiohttp", "alembic", "altair", "anthropic", "apscheduler", "asyncpg", "authlib",
    "bcrypt", "boto3", "celery", "cryptography", "dash", "dash_bootstrap_components",
    "dash_mantine_components", "django", "duckdb", "email_validator", "faker",
    "fastapi", "flask", "flask_admin", "flask_babel", "flask_bcrypt", "flask_caching", "flask_cors",
    "flask_jwt_extended", "flask_limiter", "flask_login", "flask_mail", "flask_marshmallow",
    "flask_migrate", "flask_restful", "flask_restx", "flask_session", "flask_socketio",
    "flask_sqlalchemy", "flask_talisman", "flask_wtf", "folium", "gradio", "gspread", "gunicorn", "httpx",
    "itsdangerous", "jinja2", "joblib", "langchain", "loguru", "markdown", "markupsafe", "marshmallow",
    "matplotlib", "motor", "networkx", "nltk", "numpy", "openai", "openpyxl", "pandas", "passlib",
    "peewee", "plotly", "prometheus_client", "psutil", "psycopg", "pydantic", "pydantic_settings",
    "pymongo", "pymysql", "qrcode", "redis", "reportlab", "requests", "scipy", "seaborn", "slowapi",
    "sqlalchemy", "sqlmodel", "starlette", "streamlit", "stripe", "sympy", "tabulate", "tenacity",
    "tiktoken", "tornado", "uvicorn", "werkzeug", "whitenoise", "wtforms", "xgboost",
    *_PACKAGES_BY_MODULE,
})  # fmt: skip
"""Modules whose package is well known. A package is installed by the name of a module only for these:
anybody may publish a package under another name."""


def known_package_of(module: str) -> str:
    """Returns the package of a well-known module; empty for any other module."""
    return package_of(module).replace("_", "-") if module in _WELL_KNOWN_MODULES else ""


def package_of(module: str) -> str:
    """Returns the package to install for a module. An unknown module has the same name as its package."""
    return _PACKAGES_BY_MODULE.get(module.partition(".")[0], module)
