"""Finds packages that build with webpack 4, whose hashes Node 17 and newer refuse by default."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from windlass.detect.known_files import table

OLD_HASHES: Final = "--openssl-legacy-provider"
"""The option of Node that allows these hashes. Older versions of Node refuse the option."""
OLD_HASHES_IF_NEEDED: Final = (
    """NODE_OPTIONS="$NODE_OPTIONS $(node -p "+process.versions.node.split('.')[0] > 16 ? """
    f"""'{OLD_HASHES}' : ''")\""""
)
"""Sets the option for the Node that builds, whichever it is."""
_OLD_HASH_VERSIONS: Final[Mapping[str, range]] = {
    "react-scripts": range(2, 5),
    "@vue/cli-service": range(3, 5),
    "webpack": range(4, 5),
    "next": range(7, 11),
    "nuxt": range(2, 3),
    "gatsby": range(2, 3),
    "laravel-mix": range(4, 6),
    "@angular/core": range(6, 12),
    "umi": range(2, 4),
    "preact-cli": range(2, 4),
    "vuepress": range(1, 2),
}
"""For each package, the major versions that build with webpack 4."""
_MAJOR_PATTERN: Final = re.compile(r"[~^>=v]*+\s*+(\d{1,4})\.")
"""Matches the major version in the beginning of a range."""


def package_with_old_hashes(package: Mapping[str, Any]) -> str:
    """Returns the first package of package.json that uses old hashes, with its version."""
    needed = table(package, "dependencies") | table(package, "devDependencies")
    for name, versions in _OLD_HASH_VERSIONS.items():
        wanted = needed.get(name)
        match = _MAJOR_PATTERN.match(wanted.strip()) if isinstance(wanted, str) else None
        if match and int(match[1]) in versions:
            return f"{name} {match[1]}"
    return ""
