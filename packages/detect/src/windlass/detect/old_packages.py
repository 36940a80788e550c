"""Versions of packages that need an old setuptools, and say so nowhere or without its version.

They import pkg_resources, which setuptools 81 announced to remove and newer ones no longer have.
"""

from __future__ import annotations

import re
from typing import Final

SETUPTOOLS: Final = "setuptools<81"
_WITHOUT_SINCE: Final = {"gunicorn": (21,), "apscheduler": (3, 11), "djangorestframework-simplejwt": (5, 3)}
"""The first version of each that does without pkg_resources."""
PIN: Final = re.compile(
    r"^(?:name = \")?(?P<name>[a-z][\w.-]*+)(?:\[[^\]\n]*+\])?"
    r"(?:[ \t]*+==[ \t]*+|\"\nversion = \")(?P<version>\d[\d.]*+)",
    re.IGNORECASE | re.MULTILINE,
)
"""A line of requirements, or two lines of a lock of uv, Poetry or PDM."""
_OWN_SETUPTOOLS: Final = re.compile(r"^setuptools[ \t]*+[=~>]", re.IGNORECASE | re.MULTILINE)


def old_package_in(text: str) -> str:
    """Returns the first package of requirements or a lock that needs an old setuptools, such as `gunicorn
    20.1.0`. Empty if there is none, or if the requirements choose a setuptools themselves."""
    if _OWN_SETUPTOOLS.search(text):
        return ""
    for match in PIN.finditer(text):
        since = _WITHOUT_SINCE.get(match["name"].lower().replace("_", "-"))
        if since and version_numbers(match["version"]) < since:
            return f"{match['name']} {match['version']}"
    return ""


def version_numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part[:9]) for part in version.split(".") if part)
