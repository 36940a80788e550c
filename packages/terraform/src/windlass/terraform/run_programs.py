"""Chooses the program that runs a module: a program of this machine, or the program in an image. Also packs
the launcher for containers."""

from __future__ import annotations

import io
import re
import zipfile
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Final

from msgspec import Struct

from windlass.base.errors import Invalid
from windlass.base.settings import settings_of
from windlass.base.subprocesses import in_thread
from windlass.config import Settings
from windlass.control.context.place import Place
from windlass.control.context.server_addresses import address_at
from windlass.engines.registries import parse_ref
from windlass.terraform.families.terraform import Terraform
from windlass.terraform.programs import PROGRAM_NAMES, InstalledProgram, Programs, choose
from windlass.terraform.settings import TerraformSettings

LAUNCHER_PATH: Final = "/windlass-launcher.pyz"
"""The path of the launcher's archive in a container. Python can execute the archive."""
IMAGE_PROVIDERS: Final = "/usr/local/share/terraform/plugins"
"""The folder with providers in an image. Providers in this folder are not downloaded."""
_LAUNCHER_MODULES: Final = ("launcher", "run_server", "terraform", "terraform_environment")
_MAIN_PROGRAM: Final = (
    "from windlass.launch.launcher import launch\n"
    "from windlass.launch.terraform import start\n"
    "launch(start)\n"
)
_VERSION_PATTERN: Final = re.compile(r"[0-9]+(\.[0-9]+){0,2}")
_INSTALL_COMMANDS: Final = {
    "TERRAFORM": "`apt-get install terraform` from the packages of HashiCorp",
    "OPEN_TOFU": "`apt-get install tofu` from the packages of OpenTofu",
}


class RunProgram(Struct, frozen=True, kw_only=True):
    """The program of a run, with paths and addresses as they are at the place of the run."""

    path: str
    server: str
    """The address at which the run can reach this server."""
    image: str = ""
    """The image that contains the program. Empty for a program of the machine."""
    providers: str = ""
    """A folder with providers. Empty if there is none."""


async def program_of(settings: Settings, programs: Programs, place: Place, spec: Terraform) -> RunProgram:
    """Returns the program that runs a module at a place. Raises Invalid if there is none."""
    if place.takes == "image":
        return image_program(settings, place, spec)
    return await in_thread(_program_here, settings, programs, place, spec)


def _program_here(settings: Settings, programs: Programs, place: Place, spec: Terraform) -> RunProgram:
    mirror = settings_of(TerraformSettings, settings).terraform_providers
    return RunProgram(
        path=installed_program(programs, spec).path,
        server=address_at(settings, place),
        providers=str(Path(mirror).resolve()) if mirror else "",
    )


def check_program(settings: Settings, programs: Programs, place: Place, spec: Terraform) -> None:
    """Raises Invalid if it is already known that no program can run the module at a place."""
    if place.takes == "image":
        image_program(settings, place, spec)
    else:
        installed_program(programs, spec)


def image_program(settings: Settings, place: Place, spec: Terraform) -> RunProgram:
    """Returns the program of an image. Raises Invalid if containers cannot reach this server."""
    return RunProgram(
        path=PROGRAM_NAMES[spec.engine],
        server=address_at(settings, place),
        image=_image(settings, spec),
        providers=IMAGE_PROVIDERS,
    )


def installed_program(programs: Programs, spec: Terraform) -> InstalledProgram:
    """Returns the program of this machine that runs the module. Raises Invalid if the machine has no suitable
    program."""
    installed, version = programs.find_all(), _asked_version(spec)
    program = choose(installed, spec.engine, version)
    if program is not None:
        return program
    own = [program.version for program in installed if program.engine == spec.engine]
    if own:
        raise Invalid(
            f"provider_version.explicit_version: choose one of {', '.join(own)}, which the machine of this "
            f"server has, or install {version} beside it as {PROGRAM_NAMES[spec.engine]}-{version}"
        )
    others = sorted({program.engine for program in installed})
    choice = f", or choose {others[0]}" if others else ""
    raise Invalid(
        f"engine: the machine of this server has no {PROGRAM_NAMES[spec.engine]}: install it "
        f"({_INSTALL_COMMANDS[spec.engine]}){choice}"
    )


def images(settings: Settings) -> dict[str, str]:
    """Returns the default image of each engine."""
    own = settings_of(TerraformSettings, settings)
    return {"OPEN_TOFU": own.opentofu_image, "TERRAFORM": own.terraform_image}


def image_versions(settings: Settings) -> list[tuple[str, str]]:
    """Returns the engines with the version in the tag of their default image. Leaves out tags that are not
    versions."""
    tags = {engine: parse_ref(image).tag for engine, image in images(settings).items()}
    return [(engine, tag) for engine, tag in tags.items() if _VERSION_PATTERN.fullmatch(tag)]


@cache
def launcher_archive() -> bytes:
    """Returns the launcher as an archive that a Python without Windlass can execute."""
    content = io.BytesIO()
    folder = resources.files("windlass.launch")
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for package in ("windlass", "windlass/launch"):
            archive.writestr(_archive_entry(f"{package}/__init__.py"), b"")
        for name in _LAUNCHER_MODULES:
            archive.writestr(
                _archive_entry(f"windlass/launch/{name}.py"), (folder / f"{name}.py").read_bytes()
            )
        archive.writestr(_archive_entry("__main__.py"), _MAIN_PROGRAM)
    return content.getvalue()


def _archive_entry(name: str) -> zipfile.ZipInfo:
    """Returns an archive entry without the current time, so that the same launcher always leads to the same
    archive."""
    entry = zipfile.ZipInfo(name)
    entry.compress_type = zipfile.ZIP_DEFLATED
    return entry


def _asked_version(spec: Terraform) -> str:
    version = spec.provider_version
    return "" if version.read_from_terraform_block else version.explicit_version


def _image(settings: Settings, spec: Terraform) -> str:
    usual, version = images(settings)[spec.engine], _asked_version(spec)
    return f"{parse_ref(usual).name}:{version}" if version else usual
