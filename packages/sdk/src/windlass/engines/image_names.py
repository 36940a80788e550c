"""Image names: their registry, reserved names, and the order of tags. Pure."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable
from typing import Final

from msgspec import Struct

_VERSION_PATTERN: Final = re.compile(
    r"(?P<before>v?)(?P<numbers>[0-9]{1,12}(\.[0-9]{1,12}){0,5})(?P<after>[-_+.].*)?\Z", re.ASCII
)
_UNSTABLE_PATTERN: Final = re.compile(
    r"(^|[-_+.0-9])(a|alpha|b|beta|rc|pre|preview|dev|canary|nightly|snapshot)([-_+.0-9]|\Z)", re.IGNORECASE
)


class TagVersion(Struct, frozen=True):
    numbers: tuple[int, ...]
    before: str
    after: str

    def has_form_of(self, other: TagVersion) -> bool:
        forms = [(len(tag.numbers), tag.before, tag.after) for tag in (self, other)]
        return forms[0] == forms[1]


def version_in(tag: str) -> TagVersion | None:
    match = _VERSION_PATTERN.match(tag)
    if match is None:
        return None
    numbers = tuple(int(part) for part in match["numbers"].split("."))
    return TagVersion(numbers, match["before"], match["after"] or "")


def newest_first(tags: Iterable[str]) -> list[str]:
    """Returns tags in a readable order: versions in descending order (a release before its pre-releases),
    then all other tags by name."""
    versions = {tag: version_in(tag) for tag in dict.fromkeys(tags)}
    numbered = [(version, tag) for tag, version in versions.items() if version]
    numbered.sort(key=lambda entry: entry[1])
    numbered.sort(
        key=lambda entry: (entry[0].numbers, not _UNSTABLE_PATTERN.search(entry[0].after)), reverse=True
    )
    return [tag for _, tag in numbered] + sorted(tag for tag, version in versions.items() if version is None)


def newer_than(current_tag: str, tags: Iterable[str]) -> list[str]:
    """Returns the tags of the same form with higher version numbers, in descending order."""
    own = version_in(current_tag)
    if own is None:
        return []
    return [
        tag
        for tag in newest_first(tags)
        if (version := version_in(tag)) and version.has_form_of(own) and version.numbers > own.numbers
    ]


WINDLASS_PREFIX: Final = "windlass/"
"""Name prefix of images that Windlass built. They are never looked up in a registry."""
NOT_ITS_OWN: Final = "images that Windlass built are for their own service alone"
"""Error message for a service that uses such an image."""
DOCKER_HUB: Final = "docker.io"
_PUBLIC_REGISTRIES: Final = uuid.UUID("7c2f0a54-1d5e-4a3c-9b1e-50c6f3a9e2d7")
DIGEST: Final = "sha256:[0-9a-f]{64}"
"""Regular expression for an image digest."""
_DIGEST_ALGORITHMS: Final = frozenset({"sha256", "sha384", "sha512"})
_HUB_HOSTS_PATTERN: Final = re.compile(r"\A(?:(?:index\.|registry-1\.)?docker\.io/)+")


def is_ours(name: str) -> bool:
    """Returns whether an engine may interpret a name as an image that Windlass built."""
    return _HUB_HOSTS_PATTERN.sub("", name.lower()).startswith(WINDLASS_PREFIX)


def is_digest(text: str) -> bool:
    return re.fullmatch(DIGEST, text) is not None


def names_an_id(name: str) -> bool:
    """Returns whether an engine may interpret `name:tag` as the beginning of an image id."""
    return name.lower() in _DIGEST_ALGORITHMS


def is_named_by_id(ref: str, id: str) -> bool:
    """Returns whether a reference is the beginning of the id of the image that an engine found for it."""
    return id.removeprefix("sha256:").startswith(ref.lower().removeprefix("sha256:"))


def registry_host(name: str) -> str:
    """Returns the registry host of an image name, as engines parse it: `ghcr.io` for `ghcr.io/acme/shop`,
    `docker.io` for `nginx`. A first part with capital letters is a host, too, because image names have
    none."""
    first, slash, _ = name.partition("/")
    is_host = bool(slash) and ("." in first or ":" in first or first == "localhost" or first != first.lower())
    return first if is_host and not _HUB_HOSTS_PATTERN.match(name) else DOCKER_HUB


def public_registry_id(image_name: str) -> str:
    """Returns the id by which clients know the public registry of an image that uses no registry of the
    organization. Every existing client expects a registry."""
    return str(uuid.uuid5(_PUBLIC_REGISTRIES, registry_host(image_name)))


def with_registry(name: str) -> str:
    """Returns the full name with its registry, including Docker Hub: `docker.io/library/nginx`."""
    if registry_host(name) != DOCKER_HUB:
        return name
    rest = _HUB_HOSTS_PATTERN.sub("", name)
    return f"{DOCKER_HUB}/{rest}" if "/" in rest else f"{DOCKER_HUB}/library/{rest}"


def spelled_out(name: str) -> str:
    """Returns the canonical form of an image name: with its registry, without the default port, in lower
    case."""
    name = name.lower()
    host = registry_host(name)
    rest = _HUB_HOSTS_PATTERN.sub("", name) if host == DOCKER_HUB else name.partition("/")[2]
    return f"{host.removesuffix(':443')}/{rest}"
