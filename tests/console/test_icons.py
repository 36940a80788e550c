"""The icons that pages name are in the sprite, and no others are; their licence is served by nobody but kept
with them."""

from __future__ import annotations

import re

from windlass.console.files import ROOT, ConsoleFiles, sources

SCRIPTS = "\n".join(content.decode() for name, content in sources().items() if name.endswith(".js"))
SYMBOL = re.compile(r'<symbol id="([\w-]+)" viewBox="0 0 24 24">')
NAMED = re.compile(r'\bicon(?:\(|: )"([a-z0-9-]+)"')


def symbols(file: str) -> set[str]:
    return set(SYMBOL.findall((ROOT / file).read_text()))


def test_every_icon_that_a_page_names_is_in_the_sprite() -> None:
    named = set(NAMED.findall(SCRIPTS))
    assert len(named) > 10
    assert {f"icon-{name}" for name in named} - symbols("icons.svg") == set()


def test_the_sprite_has_only_icons_that_are_used() -> None:
    unused = {name for name in symbols("icons.svg") if f'"{name.removeprefix("icon-")}"' not in SCRIPTS}
    assert unused == set()


def test_every_known_logo_is_in_the_file_of_logos_and_no_other() -> None:
    (listed,) = re.findall(r"const KNOWN = new Set\((.*?)\.split", SCRIPTS, re.DOTALL)
    known = set(" ".join(re.findall(r'"([^"]+)"', listed)).split())
    assert known == symbols("logos.svg")


def test_the_page_contains_the_sprite_and_no_drawing_can_run_a_script() -> None:
    page = ConsoleFiles().find("/console")
    assert page is not None
    assert b'<symbol id="icon-search"' in page.body
    for file in ("icons.svg", "logos.svg"):
        assert not re.search(
            r"<script|href|\bon\w+=|<foreignObject", (ROOT / file).read_text(), re.IGNORECASE
        )


def test_the_licence_of_the_icons_is_beside_them() -> None:
    assert "ISC License" in (ROOT / "icons.LICENSE.txt").read_text()
    assert "CC0" in (ROOT / "logos.LICENSE.txt").read_text()
