"""The environment variables that tell a database launcher what to start."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from windlass.launch.launcher import LaunchRefused, Variables

VOLUME_VARIABLE: Final = "WINDLASS_VOLUME_DATA"
SERVER_VARIABLE: Final = "WINDLASS_SERVER"
VERSION_VARIABLE: Final = "WINDLASS_SERVER_VERSION"
INSTALLER_VARIABLE: Final = "WINDLASS_INSTALLER"
"""The program that initializes a MariaDB data folder. MySQL needs none, because its server initializes the
folder."""
MEMORY_VARIABLE: Final = "WINDLASS_MEMORY"
LISTEN_VARIABLE: Final = "WINDLASS_LISTEN"
"""The address to listen on if the instance has its own network."""
LOOPBACK: Final = "127.0.0.1"

_NAME_PATTERN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,62}")
_CGROUP_FOLDER = Path("/sys/fs/cgroup")


def host_of(variables: Variables) -> str:
    return variables.get(LISTEN_VARIABLE) or LOOPBACK


def port_of(variables: Variables) -> int:
    text = variables.get("PORT", "")
    if not text.isascii() or not text.isdigit() or not 0 < int(text) < 65_536:
        raise LaunchRefused(f"PORT must be the port to listen on, from 1 to 65535, and is {text!r}")
    return int(text)


def memory_of(variables: Variables, default: int) -> int:
    """Returns the memory limit in megabytes: the variable's value, or else the control group's limit, or else
    `default`."""
    text = variables.get(MEMORY_VARIABLE) or _memory_limit() or str(default)
    if not text.isascii() or not text.isdigit() or not int(text):
        raise LaunchRefused(f"{MEMORY_VARIABLE} must be a number of megabytes, and is {text!r}")
    return int(text)


def _memory_limit() -> str:
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        hierarchy, _, path = line.split(":", 2)
        file = _CGROUP_FOLDER / path.lstrip("/") / "memory.max"
        if hierarchy == "0" and file.is_file() and (most := file.read_text().strip()).isdigit():
            return str(max(int(most) >> 20, 1))
    return ""


def data_of(variables: Variables, name: str, variable: str = "") -> Path:
    """Returns the data folder: the folder `name` in the volume or, without a volume, the value of the
    variable `variable`.

    The volume has priority because `variable` may be a path that exists only inside an image.
    """
    if volume := variables.get(VOLUME_VARIABLE):
        return Path(volume).absolute() / name
    if variable and (path := variables.get(variable)):
        return Path(path).absolute()
    raise LaunchRefused(
        f"no folder for the data is named: set {VOLUME_VARIABLE}{f' or {variable}' if variable else ''}"
    )


def name_of(variables: Variables, variable: str, default: str) -> str:
    name = variables.get(variable) or default
    if not _NAME_PATTERN.fullmatch(name):
        raise LaunchRefused(
            f"{variable} must begin with a letter and continue with up to 62 letters, digits, `_` or `-`, "
            f"and is {name!r}"
        )
    return name


def password_of(variables: Variables, *names: str) -> str:
    for name in names:
        if password := variables.get(name):
            return password
    raise LaunchRefused(
        f"{names[0]} must be set: a database without a password is open to every user of this machine"
    )
