"""Python modules by name: modules missing in newer Python or setuptools versions, standard library modules,
and modules whose package has another name.

Texts with several names are alternatives of a regular expression.
"""

from __future__ import annotations

import sys
from typing import Final

REMOVED: Final = "imp|asyncore|smtpd|cgi|crypt|telnetlib|pipes"
LAST_WITH_REMOVED: Final = "3.11"
"""The newest Python that contains all removed modules."""
OF_OLD_SETUPTOOLS: Final = "pkg_resources|distutils"
ADD_SETUPTOOLS: Final = "Add setuptools<81 to the dependencies"
STANDARD: Final = "|".join(sorted(sys.stdlib_module_names))
_PACKAGES: Final = {
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


def package_of(module: str) -> str:
    """Returns the package to install for a module. An unknown module has the same name as its package."""
    return _PACKAGES.get(module.partition(".")[0], module)
