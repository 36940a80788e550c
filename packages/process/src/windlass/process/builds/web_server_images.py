"""Dockerfiles that end in the image of a web server, which serves files and nothing else."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence
from typing import Final

from windlass.builders.dockerfile import Dockerfile, Stage
from windlass.builders.instructions import Instruction
from windlass.detect import Recipe

_FOLDERS: Final = {
    "caddy": "/usr/share/caddy",
    "httpd": "/usr/local/apache2/htdocs",
    "nginx": "/usr/share/nginx/html",
    "nginx-unprivileged": "/usr/share/nginx/html",
}
"""The folder that each image serves by default."""
_PROGRAMS: Final = {"caddy", "httpd", "httpd-foreground", "nginx", "nginx-debug"}
_CHANGES_NOTHING: Final = {"CMD", "EXPOSE", "LABEL", "MAINTAINER", "STOPSIGNAL", "WORKDIR"}


def name_of_image(base: str) -> str:
    """Returns the name of an image without its registry, tag and digest."""
    return base.rpartition("/")[2].partition("@")[0].partition(":")[0]


def starts_web_server(image: str, argv: Sequence[str]) -> bool:
    """True if an image is that of a web server, and the command is none or its own."""
    return name_of_image(image) in _FOLDERS and (not argv or posixpath.basename(argv[0]) in _PROGRAMS)


def serves_the_site(read: Dockerfile, recipe: Recipe) -> bool:
    """True if the Dockerfile only copies one folder of the repository for a web server, and the recipe serves
    this folder as it is."""
    stage = read.stages[-1]
    if len(read.stages) > 1 or recipe.build or not recipe.static_folder:
        return False
    if not {instruction.name for instruction in stage.instructions} <= _CHANGES_NOTHING | {"ADD", "COPY"}:
        return False
    return list(_copied_folders(stage)) == [posixpath.normpath(recipe.static_folder)]


def _copied_folders(stage: Stage) -> Iterator[str]:
    """Yields what is copied, a folder that goes to the served one by its path in the repository."""
    served = _FOLDERS.get(name_of_image(stage.base))
    place = "/"
    for instruction in stage.instructions:
        if instruction.name == "WORKDIR":
            place = posixpath.join(place, instruction.text)
        elif instruction.name in ("ADD", "COPY"):
            *sources, to = _words(instruction)
            goes_there = posixpath.normpath(posixpath.join(place, to)) == served and not instruction.flags
            yield posixpath.normpath(sources[0].strip("/")) if goes_there and len(sources) == 1 else ""


def _words(instruction: Instruction) -> Sequence[str]:
    return instruction.json or instruction.text.split()
