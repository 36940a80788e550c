"""Reads what others have written: the index of a repository, and the description of a chart. Does no I/O.

The YAML is hostile input, so that a server reads it in a process with limits (`base.bounded`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import yaml
from msgspec import Struct

from windlass.helm.chart_error import ChartError
from windlass.helm.chart_versions import newest_version_first

DESCRIPTION_FILE: Final = "Chart.yaml"
LOCK_FILE: Final = "Chart.lock"
MAX_DEPENDENCIES: Final = 100
MAX_CHARTS: Final = 20_000
MAX_VERSIONS: Final = 5_000
"""Maximum number of charts of an index, and of versions of one of them, that are read."""
_NAME_PATTERN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}\Z")
_VERSION_PATTERN: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+_-]{0,127}\Z")
_DIGEST_PATTERN: Final = re.compile(r"(sha256:)?([0-9a-f]{64})\Z")
_Loader: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class ChartEntry(Struct, frozen=True):
    """A version of a chart in an index."""

    version: str
    url: str
    """The address of the archive, which may be relative to the index."""
    digest: str
    """The SHA-256 of the archive; empty if the index does not have it."""


class ChartDependency(Struct, frozen=True):
    """A dependency of a chart."""

    name: str
    version: str
    """The version, or a range of versions."""
    repository: str


class ChartDescription(Struct, frozen=True):
    """The description of a chart in its Chart.yaml."""

    name: str
    version: str
    dependencies: tuple[ChartDependency, ...] = ()


def load(text: bytes | str, what: str) -> Any:
    """Parses one YAML document. Raises ChartError."""
    try:
        return yaml.load(text, _Loader)  # noqa: S506 (a safe loader, written in C)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ChartError(f"Write valid YAML into {what}: {reason}") from error


def read_index(content: bytes) -> dict[str, list[ChartEntry]]:
    """Returns the charts of an index, each with its versions, the newest first. Raises ChartError."""
    document = load(content, "index.yaml")
    entries = document.get("entries") if isinstance(document, dict) else None
    if not isinstance(entries, dict):
        raise ChartError("Check the address: its index.yaml is not the index of a chart repository")
    charts: dict[str, list[ChartEntry]] = {}
    for name, versions in entries.items():
        if isinstance(name, str) and _NAME_PATTERN.match(name) and len(charts) < MAX_CHARTS:
            known = {entry.version: entry for entry in reversed([*_entries(versions)])}
            charts[name] = [known[version] for version in newest_version_first(known)]
    return {name: charts[name] for name in sorted(charts) if charts[name]}


def _entries(versions: object) -> Iterator[ChartEntry]:
    for item in versions[:MAX_VERSIONS] if isinstance(versions, list) else ():
        if not isinstance(item, dict):
            continue
        version, urls, digest = item.get("version"), item.get("urls"), item.get("digest")
        match = _DIGEST_PATTERN.match(digest) if isinstance(digest, str) else None
        url = urls[0] if isinstance(urls, list) and urls else None
        if isinstance(version, str) and _VERSION_PATTERN.match(version) and isinstance(url, str):
            yield ChartEntry(version, url, match[2] if match else "")


def read_description(content: bytes) -> ChartDescription:
    """Returns the description in a file Chart.yaml. Raises ChartError."""
    document = load(content, DESCRIPTION_FILE)
    name, version = (_text(document, key) for key in ("name", "version"))
    if not _NAME_PATTERN.match(name) or not _VERSION_PATTERN.match(version):
        raise ChartError(f"Give the chart a name and a version in {DESCRIPTION_FILE}: one of them is missing")
    if _text(document, "type") == "library":
        raise ChartError("Choose another chart: a library chart is a part of others, and cannot be installed")
    return ChartDescription(name, version, _dependencies(document))


def read_lock(content: bytes) -> tuple[ChartDependency, ...]:
    """Returns the dependencies in a file Chart.lock, with their exact versions. Raises ChartError."""
    return _dependencies(load(content, LOCK_FILE))


def _dependencies(document: object) -> tuple[ChartDependency, ...]:
    needed = document.get("dependencies") if isinstance(document, Mapping) else None
    items = needed[:MAX_DEPENDENCIES] if isinstance(needed, list) else ()
    found = (
        ChartDependency(*(_text(item, key) for key in ("name", "version", "repository"))) for item in items
    )
    return tuple(item for item in found if _NAME_PATTERN.match(item.name))


def _text(document: object, key: str) -> str:
    value = document.get(key) if isinstance(document, Mapping) else None
    return value if isinstance(value, str) else ""
