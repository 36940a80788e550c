"""Names as commands and options write them."""

from __future__ import annotations

import re


def kebab(name: str) -> str:
    """Returns a name in kebab case: `environmentVariable` → `environment-variable`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|_", "-", name).lower()
