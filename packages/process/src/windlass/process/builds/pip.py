"""Installs Python packages with pip, or with uv if no suitable pip is available."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from windlass.builders.builder import BuildError
from windlass.process.builds.tools import Tools

MIN_PIP_VERSION: Final = (22, 3)  # the first version with the option --python


def own_python() -> str:
    """Returns the Python that runs Windlass, as a path outside of Windlass's own virtual environment."""
    name = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    for program in (Path(sys.base_prefix) / "bin" / name, Path(sys.base_prefix) / "bin" / "python3"):
        if program.exists():
            return str(program)
    return sys.executable


async def pip_install(
    tools: Tools,
    python: str,
    venv: Path,
    arguments: Sequence[str | Path],
    cwd: Path,
    variables: Mapping[str, str],
) -> None:
    """Installs packages into a virtual environment. The environment needs no pip of its own."""
    into = venv / "bin" / "python"
    if pip := await find_pip(tools, python):
        argv: list[str | Path] = [*pip, "--python", into, "install", *arguments]
        await tools.run(argv, cwd=cwd, extra_variables=variables, title="pip install")
    elif uv := find_uv(tools):
        argv = [uv, "pip", "install", "--python", into, *arguments]
        await tools.run(argv, cwd=cwd, extra_variables=variables, title="uv pip install")
    else:
        raise BuildError(_MISSING_PIP_ADVICE)


async def install_in_folder(tools: Tools, packages: Sequence[str], folder: Path) -> None:
    """Installs packages that contain programs into a folder of their own, without a virtual environment."""
    if pip := await find_pip(tools, own_python()):
        argv: list[str | Path] = [*pip, "install", "--no-compile", "--target", folder, *packages]
        await tools.run(argv, cwd=tools.home, title="pip install")
    elif uv := find_uv(tools):
        await tools.run(
            [uv, "pip", "install", "--target", folder, *packages], cwd=tools.home, title="uv pip install"
        )
    else:
        raise BuildError(_MISSING_PIP_ADVICE)


_MISSING_PIP_ADVICE: Final = (
    "Install python3-pip, or uv, on the machine that runs Windlass: it has no pip "
    f"{MIN_PIP_VERSION[0]}.{MIN_PIP_VERSION[1]} or newer, and no uv."
)


async def find_pip(tools: Tools, python: str) -> list[str] | None:
    for program in dict.fromkeys((python, own_python(), sys.executable)):
        answer = await tools.ask_once([program, "-m", "pip", "--version"], program)
        version = re.match(r"pip (\d+)\.(\d+)", answer or "")
        if version and (int(version[1]), int(version[2])) >= MIN_PIP_VERSION:
            return [program, "-m", "pip"]
    return None


def find_uv(tools: Tools) -> str | None:
    beside = Path(sys.executable).with_name("uv")
    return tools.find("uv") or (str(beside) if beside.exists() else None)
