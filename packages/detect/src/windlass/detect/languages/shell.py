"""A shell script that starts the application."""

from __future__ import annotations

from windlass.detect.known_files import KnownFiles
from windlass.detect.language import LAST_PRECEDENCE, Language
from windlass.detect.recipe import Recipe

_START_SCRIPTS = ("start.sh", "run.sh")


def fill(files: KnownFiles, recipe: Recipe) -> None:
    if script := files.has(*_START_SCRIPTS):
        shell = "bash" if "bash" in files.line(script) or "bash" in files.text(script)[:100] else "sh"
        recipe.choose(f"{script} is there.", start=f"{shell} {script}")


shell = Language(name="Shell", manifests=(), code=_START_SCRIPTS, rank=LAST_PRECEDENCE, fill=fill)
