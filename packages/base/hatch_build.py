"""Writes the commit into the packages that are built, so that an installed Windlass knows it."""

from __future__ import annotations

import runpy
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCE = "src/windlass/base/commit.py"


class CommitHook(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Adds the file, unless the checkout itself is installed or a source package has it already."""
        source = runpy.run_path(str(Path(self.root) / SOURCE))
        place = f"windlass/base/{source['COMMIT_FILE']}"
        if version == "editable" or (Path(self.root) / "src" / place).exists():
            return
        if commit := source["commit_of"](Path(self.root).parents[1]):
            self._folder = tempfile.TemporaryDirectory()
            file = Path(self._folder.name) / source["COMMIT_FILE"]
            file.write_text(f"{commit}\n")
            build_data["force_include"][str(file)] = place if self.target_name == "wheel" else f"src/{place}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if hasattr(self, "_folder"):
            self._folder.cleanup()
