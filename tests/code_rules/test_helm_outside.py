"""The product knows the kind helm by its declarations. The files that name it anyway are listed: at most
five."""

from __future__ import annotations

import re
from pathlib import Path

from tests.source import ROOT

PACKAGES = ROOT / "packages"
NAMES = re.compile(
    r"helm|\bof charts\b|values_override|allow_cluster_wide|cluster_wide_resources|chart_(?:name|version)",
    re.IGNORECASE,
)
PAGE = ROOT / "docs/sketches/helm-and-kubernetes.md"
OTHER_PATHS = re.compile(r"installationHelmValues")
"""A path of the full interface about what a cluster consists of, which is not offered."""


def files_that_name_it(folder: Path) -> set[str]:
    """Returns the files outside of the package that name the kind, its settings, or its charts."""
    return {
        str(path.relative_to(ROOT))
        for path in folder.rglob("*")
        if path.is_file()
        and "__pycache__" not in path.parts
        and not path.is_relative_to(PACKAGES / "helm")
        and NAMES.search(OTHER_PATHS.sub("", path.read_text(errors="replace")))
    }


def listed_files() -> set[str]:
    """Returns the files of the list in the manual."""
    _, _, section = PAGE.read_text().partition("### Files outside of the package")
    return set(re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE))


def test_at_most_five_files_outside_of_its_package_name_the_kind_helm() -> None:
    found = files_that_name_it(PACKAGES)
    assert found == listed_files(), "declare it in packages/helm, or correct the list"
    assert len(found) <= 5


def test_the_search_finds_names_settings_and_charts(tmp_path: Path) -> None:
    names = ("import helm", "words.HELM", "releases of charts", "values_override", "chart_version")
    assert [text for text in (*names, "a gap in a chart") if NAMES.search(text)] == [*names]
