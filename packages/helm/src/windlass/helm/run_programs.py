"""Chooses the Helm program of a run: a program of this machine, or that of an image. Also packs the launcher
for containers."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from functools import cache
from importlib import resources
from pathlib import Path
from shutil import which
from typing import Final

from msgspec import Struct

from windlass.base.environment import for_tools
from windlass.base.errors import Invalid
from windlass.base.settings import settings_of
from windlass.config import Settings
from windlass.control.context.place import Place
from windlass.control.context.server_addresses import address_at
from windlass.engines.namespace_access import NamespaceAccess
from windlass.helm.settings import HelmSettings

PROGRAM_NAME: Final = "helm"
LAUNCHER_PATH: Final = "/windlass-launcher.pyz"
"""The path of the launcher's archive in a container. Python can execute the archive."""
NO_CLUSTER: Final = (
    "the cluster of this environment is no Kubernetes cluster, which Helm needs: connect a cluster with the "
    "engine KUBERNETES, and use an environment on it"
)
_LAUNCHER_MODULES: Final = ("launcher", "run_server", "helm", "kubernetes_api")
_MAIN_PROGRAM: Final = (
    "from windlass.launch.launcher import launch\nfrom windlass.launch.helm import start\nlaunch(start)\n"
)


class ChartProgram(Struct, frozen=True, kw_only=True):
    """The program of a run, with its path and the address of this server as they are at the place of the
    run."""

    path: str
    server: str
    image: str = ""
    """The image that contains the program. Empty for a program of the machine."""


def obstacle_at(place: Place) -> str:
    """Returns why no chart can be installed at a place; empty if it can."""
    return "" if isinstance(place.engine, NamespaceAccess) else NO_CLUSTER


FindProgram = Callable[[], str]
"""Returns the path of the program of this machine. Raises Invalid if there is none."""


def program_at(settings: Settings, place: Place, find_program: FindProgram) -> ChartProgram:
    """Returns the program for runs at a place. Raises Invalid if there is none."""
    if place.takes == "image":
        image = settings_of(HelmSettings, settings).helm_image
        return ChartProgram(path=PROGRAM_NAME, server=address_at(settings, place), image=image)
    return ChartProgram(path=find_program(), server=address_at(settings, place))


def installed_program() -> str:
    """Returns the path of the program of this machine. Raises Invalid if there is none."""
    path = which(PROGRAM_NAME, path=for_tools().get("PATH"))
    if path is None:
        raise Invalid(
            "source: ask the operator to install Helm 4 on the machine of this server: it is missing there"
        )
    return str(Path(path).resolve())


@cache
def launcher_archive() -> bytes:
    """Returns the launcher as an archive that a Python without Windlass can execute."""
    content = io.BytesIO()
    folder = resources.files("windlass.launch")
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for package in ("windlass", "windlass/launch"):
            archive.writestr(_entry(f"{package}/__init__.py"), b"")
        for name in _LAUNCHER_MODULES:
            archive.writestr(_entry(f"windlass/launch/{name}.py"), (folder / f"{name}.py").read_bytes())
        archive.writestr(_entry("__main__.py"), _MAIN_PROGRAM)
    return content.getvalue()


def _entry(name: str) -> zipfile.ZipInfo:
    """Returns an entry without the current time, so that the same launcher always leads to the same
    archive."""
    entry = zipfile.ZipInfo(name)
    entry.compress_type = zipfile.ZIP_DEFLATED
    return entry
