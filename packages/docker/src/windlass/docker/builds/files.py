"""Builds an image for services that run the files of a commit without building them: copies the files
unchanged.

The image gets an unprivileged user, and Python for Windlass's launcher program. The build does not need
network access if the base image already has Python.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Final

from windlass.base.dockerignore import Ignore
from windlass.builders.builder import BuildError, Order
from windlass.detect.dockerfile.instructions import is_plain_path
from windlass.docker.builds.context import EXTERNAL_DOCKERFILE, BuildContext, folder_of

_FILES_FOLDER: Final = "/windlass-files"
_USER: Final = "65532:65532"
_PYTHON: Final = (
    "has() {{ command -v $1 >/dev/null; }}; if has python3; then :; "
    "elif has apk; then apk add --no-cache python3; "
    "elif has apt-get; then apt-get update && apt-get install -y --no-install-recommends python3; "
    "else echo {advice} >&2; exit 1; fi"
)
_ADVICE: Final = "Error: choose an image that has python3, or apk or apt-get to install it, in "
_DOCKERFILE: Final = """\
FROM {base}
USER 0:0
RUN {python}
RUN echo windlass:x:{user}::/tmp:/bin/sh >>/etc/passwd{folders}
COPY --chown={user} . {inside}
WORKDIR {inside}/{root}
USER {user}
ENTRYPOINT []
"""


def files_of(order: Order) -> BuildContext:
    """Returns a build context with the whole commit, and a Dockerfile that copies it. Raises BuildError."""
    folder_of(order)
    if not is_plain_path(order.root):
        raise BuildError(
            "root_path: name a folder whose path has letters, digits and `_ . / @ + -` alone: an image is "
            f"made of it, and it is {order.root}"
        )
    text = _DOCKERFILE.format(
        base=order.settings.base,
        python=_PYTHON.format(advice=shlex.quote(_ADVICE + order.settings.base_chosen_in)),
        user=_USER,
        # A new volume inherits the owner of the folder at its mount point.
        folders="".join(f" && mkdir -p {at} && chown {_USER} {at}" for at in order.settings.mounts),
        inside=_FILES_FOLDER,
        root=order.root,
    )
    return BuildContext(
        folder=Path(os.path.realpath(order.source)),
        dockerfile=EXTERNAL_DOCKERFILE,
        text=text.encode(),
        ignore=Ignore(),
        outside=True,
        is_whole=True,
    )
