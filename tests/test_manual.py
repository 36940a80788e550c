"""The manual names only files, modules, classes and pages that exist."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.source import folder_of
from tests.tables import rows
from windlass.engines.engine import Engine
from windlass.engines.provider import RemoteProvider

ROOT = Path(__file__).parents[1]
OWN_PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("*.md"))
SKETCH = ROOT / "docs" / "sketches" / "helm-and-kubernetes.md"
CHANGELOG = ROOT / "CHANGELOG.md"
PAGES = [*OWN_PAGES, *sorted((ROOT / "docs" / "frameworks").glob("*.md")), *DECISIONS, SKETCH, CHANGELOG]
"""Pages of frameworks name files of users' repositories, and a sketch those that do not exist yet."""
FOLDERS = [ROOT, *(ROOT / "packages").glob("*/src/windlass"), folder_of("engines"), folder_of("process")]
FIELDS = folder_of("core/declare/fields.py")
INVENTED = {
    "tests/engines/test_mine.py": "docs/adding-an-engine.md",
    "packages/model/src/windlass/families/cache.py": "docs/adding-a-service-kind.md",
    "packages/windlass/src/windlass/control/kinds/cache.py": "docs/adding-a-service-kind.md",
    "families/runbook.py": "docs/adding-a-family.md",
    "windlass.families.cache": "docs/adding-a-service-kind.md",
    "packages/model/src/windlass/families/migration.py": "docs/adding-a-service-kind.md",
    "packages/windlass/src/windlass/control/kinds/migration.py": "docs/adding-a-service-kind.md",
    "windlass.families.migration": "docs/adding-a-service-kind.md",
    "main.py": "docs/running.md",
    "app.py": "docs/running.md",
    "manage.py": "docs/running.md",
}
"""Files of the examples and of users' repositories, with the page that names them."""
OTHER_WORDS = {
    "Allow",
    "Authorization",
    "Builds",
    "Dockerfile",
    "Engine",
    "Host",
    "LimitRange",
    "Procfile",
    "ResourceQuota",
    "Volumes",
    "WatchdogSec",
}
"""Header fields, files of repositories, settings of systemd, kinds of Kubernetes objects, and lines that
`windlass doctor` prints."""
ALIASES = set(re.findall(r"^(\w+)(?:: TypeAlias)? = ", FIELDS.read_text(), re.M))
"""Kinds of field are annotated types, not classes."""


@functools.cache
def known_classes() -> set[str]:
    """Reads lines, because parsing all files takes ten seconds."""
    files = (file for folder in ("packages", "tests") for file in (ROOT / folder).rglob("*.py"))
    return {name for file in files for name in re.findall(r"^ *class (\w+)", file.read_text(), re.M)}


def named(text: str) -> Iterator[tuple[str, str]]:
    """Yields the names of files, modules and classes in code marks, with their sort."""
    prose = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    for name in re.findall(r"`([^`\s]+)`", prose):
        if re.fullmatch(r"[\w./-]+\.py", name) or re.fullmatch(r"(src|tests|docs|bench)(/[\w.-]+)+/?", name):
            yield "file", name
        elif re.fullmatch(r"[A-Z][a-z0-9]+([A-Z][a-z0-9]+)*", name):
            yield "class", name
    for module in re.findall(r"^from (windlass[\w.]*) import", text, re.M):
        yield "module", module


def is_there(kind: str, name: str) -> bool:
    match kind:
        case "file":
            return any((folder / name).exists() for folder in FOLDERS)
        case "module":
            return find_spec(name) is not None
    return name in known_classes() | ALIASES | OTHER_WORDS


def anchors_of(text: str) -> set[str]:
    """The anchors of the headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def dead_links(page: Path, text: str) -> list[str]:
    dead = []
    for link in re.findall(r"\]\((?!https?:)([^)\s]+)\)", text):
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists() or (anchor and anchor not in anchors_of(target.read_text())):
            dead.append(link)
    return dead


@rows("page", OWN_PAGES, ids=[page.name for page in OWN_PAGES])
def test_every_file_class_and_module_named_on_a_page_exists(page: Path):
    here = page.relative_to(ROOT).as_posix()
    missing = [
        f"{kind} {name}"
        for kind, name in named(page.read_text())
        if INVENTED.get(name) != here and not is_there(kind, name)
    ]
    assert missing == []


@rows("page", PAGES, ids=[page.name for page in PAGES])
def test_no_page_has_a_dead_link(page: Path):
    assert dead_links(page, page.read_text()) == []


def test_the_check_finds_names_and_links_that_do_not_exist():
    gone = "See `engines/process/shelf.py`, `Courier` and [there](gone.md) or [here](#nowhere).\n"
    assert [name for kind, name in named(gone) if not is_there(kind, name)] == [
        "engines/process/shelf.py",
        "Courier",
    ]
    assert dead_links(PAGES[0], gone) == ["gone.md", "#nowhere"]


def test_every_decision_is_in_the_list_of_decisions():
    [index] = [page for page in DECISIONS if page.name == "README.md"]
    listed = re.findall(r"^- \[[^]]+\]\(([\w-]+\.md)\)", index.read_text(), re.M)
    assert listed == [page.name for page in DECISIONS if page != index]


def test_the_changelog_has_one_section_for_each_subject_of_a_version():
    """A merge that keeps both sides would double sections and lines."""
    _, *versions = CHANGELOG.read_text().split("\n## ")
    assert versions
    for version in versions:
        lines = [line for line in version.splitlines() if line.startswith(("### ", "- "))]
        assert [line for line in lines if lines.count(line) > 1] == []


def test_every_page_of_the_manual_is_in_the_table_of_contents():
    listed = set(re.findall(r"\(docs/([\w-]+\.md)\)", PAGES[0].read_text()))
    assert sorted({page.name for page in OWN_PAGES[1:]} - listed) == []


@pytest.mark.parametrize("protocol", [Engine, RemoteProvider])
def test_the_sketch_of_an_engine_has_a_line_for_each_member_of_its_protocol(protocol: type):
    """A verb that comes later has to have an answer on Kubernetes, too."""
    lines = re.findall(r"^\| (`.+?) \|", SKETCH.read_text(), re.M)
    shown = {name for line in lines for name in re.findall(r"`(\w+)`", line)}
    members = {
        name
        for base in protocol.__mro__
        for name in (*vars(base), *vars(base).get("__annotations__", {}))
        if not name.startswith("_")
    }
    assert len(members) > 10
    assert members - shown == set()
