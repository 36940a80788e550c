"""A module of the console uses no name that it neither declares nor imports nor has from the browser."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

import windlass

MODULES = Path(windlass.__file__).parent / "console" / "static" / "js"
MISTAKES = """\
import { h } from "./dom.js";
const known = (first, { second: third = forgotten }) => h(first, third, second);
for (const one of [known]) known(one);
export const late = ({ known: value }) => value.other + { key: known, late }.key + one;
"""


def undefined_names(folder: Path) -> list[str]:
    node = shutil.which("node")
    if node is None:
        pytest.skip("needs Node.js")
    script = Path(__file__).with_name("undefined_names.cjs")
    words = [node, "--expose-internals", str(script), str(folder)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    found: list[str] = json.loads(done.stdout)
    return found


def test_every_name_that_a_module_uses_is_there() -> None:
    assert undefined_names(MODULES) == []


def test_a_name_that_is_not_there_is_found(tmp_path: Path) -> None:
    (tmp_path / "page.js").write_text(MISTAKES)
    assert undefined_names(tmp_path) == ["page.js:2 forgotten", "page.js:2 second", "page.js:4 one"]
