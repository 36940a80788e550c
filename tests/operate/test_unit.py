"""The unit for systemd in the manual is one that systemd accepts."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tests.needs import needs

UNIT = (Path(__file__).parents[2] / "docs/windlass.service").read_text()
PROGRAM = "/opt/windlass/.venv/bin/windlass"

needs_systemd = needs("systemd-analyze")


def complaints(folder: Path, unit: str) -> str:
    """Returns what systemd says of a unit, whose program is not installed on this machine."""
    file = folder / "windlass.service"
    file.write_text(unit.replace(PROGRAM, str(shutil.which("true"))))
    command = ["systemd-analyze", "verify", "--man=no", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    return done.stdout + done.stderr


@needs_systemd
def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path):
    assert PROGRAM in UNIT
    assert complaints(tmp_path, UNIT) == ""
    assert "Unknown key" in complaints(tmp_path, UNIT.replace("KillMode", "KillMod"))


def test_services_and_the_gateway_go_on_while_the_unit_restarts():
    assert "\nKillMode=process\n" in UNIT
