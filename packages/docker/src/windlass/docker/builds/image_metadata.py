"""Metadata that only the recipe of an image knows, such as process types. It is stored in an image label."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
from msgspec import Struct

from windlass.base.foreign_json import BadJson, read_json
from windlass.detect.recipe import SITE_FOLDER
from windlass.engines.workload import Artifact, StaticSite

NOTES_LABEL: Final = "windlass.recipe"
"""Name of the label that stores `ImageNotes` as JSON."""
_PORT_PATTERN = re.compile(r"([0-9]{1,5})(?:/tcp|(/udp))?")


class ImageNotes(Struct, frozen=True, omit_defaults=True):
    """Metadata that comes from the recipe and that a Dockerfile cannot express."""

    processes: Mapping[str, tuple[str, ...]] = {}
    release: tuple[str, ...] = ()
    is_static: bool = False
    static_fallback: str = ""
    web_port: int = 0
    """The port of the web process unless PORT is set; 0 if no file shows a web process."""

    def written(self) -> str:
        return msgspec.json.encode(self).decode()

    def added_to(self, artifact: Artifact) -> Artifact:
        site = StaticSite(folder=".", derived_fallback=self.static_fallback) if self.is_static else None
        return msgspec.structs.replace(
            artifact,
            processes=self.processes,
            release=self.release,
            static=site,
            web_port=self.web_port,
            workdir=SITE_FOLDER if site else artifact.workdir,
        )


def notes_of(labels: Mapping[str, str]) -> ImageNotes:
    try:
        return read_json(labels.get(NOTES_LABEL) or "{}", ImageNotes)
    except BadJson:
        return ImageNotes()  # the label was set by a Dockerfile, not by Windlass


def parse_exposed(names: Iterable[str]) -> tuple[list[int], list[str]]:
    """Parses EXPOSE entries, which base images may set to anything. Returns the TCP ports, and the entries
    that are neither TCP nor UDP ports."""
    known = {name: _PORT_PATTERN.fullmatch(name) for name in names}
    others = [name for name, port in known.items() if port is None or not 0 < int(port[1]) < 65_536]
    tcp = {int(port[1]) for name, port in known.items() if port and not port[2] and name not in others}
    return sorted(tcp), sorted(others)
