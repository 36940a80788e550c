"""The version of all packages of Windlass."""

from typing import Final

VERSION: Final = "0.1.0"
