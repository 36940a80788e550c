"""Pages of docs/frameworks, one for each framework or group.

`python -m tests.frameworks.pages` writes what is detected in the sample of each page into it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from tests.detect.trees import tree_of
from tests.frameworks.samples import SAMPLES
from windlass.detect import detect

FOLDER: Final = Path(__file__).parents[2] / "docs" / "frameworks"
_BLOCK: Final = re.compile(r"(?<=<!-- detected -->\n).*?(?=<!-- end -->)", re.DOTALL)
_SILENT: Final = ("package_manager", "processes")
"""Values that the others show as well."""


def page_of(name: str) -> Path:
    return FOLDER / f"{name}.md"


def with_detected(name: str, text: str) -> str:
    """Returns the text of a page with what is detected in its sample."""
    files = SAMPLES[name]
    recipe = detect(tree_of(files))
    named = ", ".join(f"`{file}`" for file in files)
    rows = [
        f"| {name.replace('_', ' ')} | `{value}` | {reason} |"
        for name, value, reason in recipe.values
        if name not in _SILENT
    ]
    lines = [f"In a repository with {named}:", "", "| | Detected | Because |", "|---|---|---|", *rows, ""]
    told = [f"{problem}\n" for problem in recipe.problems]
    return _BLOCK.sub(lambda _: "\n".join([*lines, *told]), text)


if __name__ == "__main__":
    for name in SAMPLES:
        page = page_of(name)
        page.write_text(with_detected(name, page.read_text()))
