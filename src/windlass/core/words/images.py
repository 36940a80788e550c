"""Names of container images: which registry has one, and which are nobody's to use. Pure."""

from __future__ import annotations

import re
from typing import Final

OURS: Final = "windlass/"
"""The names of images that Windlass built begin with this. No registry is asked for them."""
DOCKER_HUB: Final = "docker.io"
_ALGORITHMS: Final = frozenset({"sha256", "sha384", "sha512"})
_HUB_HOSTS: Final = re.compile(r"\A(?:(?:index\.|registry-1\.)?docker\.io/)+")


def is_ours(name: str) -> bool:
    """True if an engine may take the name for that of an image that Windlass built."""
    return _HUB_HOSTS.sub("", name.lower()).startswith(OURS)


def names_an_id(name: str) -> bool:
    """True if an engine takes `name:tag` for the beginning of the id of any image that it has."""
    return name.lower() in _ALGORITHMS


def is_named_by_id(ref: str, id: str) -> bool:
    """True if a reference is the beginning of the id of the image that an engine found for it."""
    return id.removeprefix("sha256:").startswith(ref.lower().removeprefix("sha256:"))


def registry_host(name: str) -> str:
    """`ghcr.io/acme/shop` → `ghcr.io`, `nginx` → `docker.io`"""
    first, slash, _ = name.partition("/")
    is_host = bool(slash) and ("." in first or ":" in first or first == "localhost")
    return first if is_host and not _HUB_HOSTS.match(name) else DOCKER_HUB
