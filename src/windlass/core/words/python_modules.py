"""Modules that newer Pythons or setuptools lack and old packages import, and what to do about them.

The names are alternatives of a regular expression.
"""

from __future__ import annotations

from typing import Final

REMOVED: Final = "imp|asyncore|smtpd|cgi|crypt|telnetlib|pipes"
LAST_WITH_REMOVED: Final = "3.11"
"""The newest Python that has all of them."""
OF_OLD_SETUPTOOLS: Final = "pkg_resources|distutils"
ADD_SETUPTOOLS: Final = "Add setuptools<81 to the dependencies"
