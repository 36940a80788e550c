"""Digests of the variables of a project, environment or service, made once for each version of their lists.

Every read of a status compares the variables of now with those of the deployment. So it costs the same with
ten thousand variables as with ten.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec import Struct

from windlass.families.variable import secret, variable
from windlass.store import Reads

_FAMILIES: Final = (variable.name, secret.name)
_MOST: Final = 10_000
"""Maximum number of levels whose digests are cached."""

LevelDigest = tuple[str, str]
"""The id of a level that has variables, with the digest of these."""


class _CachedDigest(Struct, frozen=True, gc=False):
    version: tuple[int, ...]
    digest: str


class VariableDigests:
    def __init__(self, reads: Reads) -> None:
        self._reads = reads
        self._cached: dict[str, _CachedDigest] = {}
        """Keyed by level."""

    async def of(self, source: Reads, service: str) -> list[LevelDigest]:
        """Returns the digests of all levels of a service that have variables, the nearest first."""
        versions = await source.tree.versions(service, _FAMILIES)
        return [(level, await self._of_level(source, level, version)) for level, version in versions.items()]

    async def _of_level(self, source: Reads, level: str, version: tuple[int, ...]) -> str:
        cached = self._cached.get(level)
        if cached is not None and cached.version == version:
            return cached.digest
        # A change between these two reads is read now, and again by the next caller.
        digest = digest_of(await source.tree.tags(level, _FAMILIES))
        if source is self._reads:  # what a change has written may be undone, and another get its version
            if len(self._cached) >= _MOST:
                self._cached.clear()
            self._cached[level] = _CachedDigest(version, digest)
        return digest


def digest_of(tags: Iterable[tuple[str, str]]) -> str:
    """Returns the digest of variables, given by id and tag."""
    return hashlib.sha256(msgspec.json.encode(sorted(tags))).hexdigest()
