"""Gets a control group for services from systemd, beside the control group of the server's own unit.

systemd starts the main process of a unit in the unit's group, and cgroup v2 allows no process in a group that
passes controllers to child groups. If Windlass divided the group of its own unit, systemd could not start the
server again while a service or the gateway is running: the start would fail with 219/CGROUP. So services are
in the group of another unit, which lives as long as the machine runs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from windlass.base.log import log

_log = log("base.cgroups")
_SUFFIX: Final = ".service"
_START_TIMEOUT: Final = 15.0
"""Seconds that systemd may take to start the unit."""
_PATH: Final = "/usr/local/bin:/usr/bin:/bin"


def is_of_unit(group: Path) -> bool:
    """Returns whether a control group is that of a unit, in which systemd starts the unit's main process."""
    return group.name.endswith(_SUFFIX)


def services_group(server_group: Path) -> Path:
    """Returns the control group of the unit for services, given the group of the server's own unit."""
    return server_group.with_name(f"{server_group.name.removesuffix(_SUFFIX)}-services{_SUFFIX}")


def start_services_unit(server_group: Path) -> None:
    """Starts the unit for services unless it runs. Logs a warning if systemd refuses."""
    group = services_group(server_group)
    if group.exists():
        return
    command = [
        shutil.which("systemd-run") or "systemd-run",
        *(() if os.geteuid() == 0 else ("--user",)),
        "--quiet",
        "--collect",
        f"--unit={group.name}",
        f"--slice={group.parent.name}",
        f"--description=Services of {server_group.name}",
        "--property=Delegate=yes",
        "--property=TasksMax=infinity",
        "--property=OOMPolicy=continue",
        "sleep",
        "infinity",
    ]
    try:
        done = subprocess.run(
            command,
            env={"PATH": _PATH, "XDG_RUNTIME_DIR": f"/run/user/{os.geteuid()}"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_START_TIMEOUT,
            check=False,
        )
        problem = done.stderr.decode(errors="replace").strip() if done.returncode else ""
    except (OSError, subprocess.TimeoutExpired) as error:
        problem = str(error)
    if problem:
        _log.warning(
            "services have no control groups, as systemd does not start the unit for them: %s", problem
        )
