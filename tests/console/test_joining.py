"""The files that are served are the modules of the console, those of the first page joined into one."""

from __future__ import annotations

import posixpath
import re

import pytest

from windlass.base.errors import Unavailable
from windlass.console.files import ConsoleFiles, sources
from windlass.console.joining import MAIN, STYLE, UnknownForm, join

SOURCES = sources()
STYLES = {f"style/{name}.css": b"" for name in ("base", "parts", "pages")}
FIRST_PAGE = {"js/pages/overview.js": b"export const a = 1;\n"}


def joined(**modules: str) -> str:
    return join(STYLES | FIRST_PAGE | {f"js/{name}.js": text.encode() for name, text in modules.items()})[
        MAIN
    ].decode()


def test_every_referenced_file_is_served() -> None:
    served = join(SOURCES)
    for name, content in served.items():
        for target in re.findall(r'(?:from|import\()\s*"(\.[^"]+)"', content.decode("utf-8", "replace")):
            assert posixpath.normpath(posixpath.join(posixpath.dirname(name), target)) in served, name
    page = served["index.html"].decode()
    for target in re.findall(r'"/console/\{version\}/([^"]+)"', page):
        assert target in served


def test_modules_joined_into_the_main_file_are_not_served_separately() -> None:
    served = join(SOURCES)
    main = served[MAIN].decode()
    for name in served:
        assert name == MAIN or f"\n// {name}\n" not in main
    assert "\n// js/parts.js\n" in main
    assert "js/parts.js" not in served
    assert len(served[STYLE]) == sum(len(SOURCES[name]) for name in STYLES)


def test_a_module_comes_after_those_that_it_needs() -> None:
    text = joined(main='import { b } from "./one.js";\nb();\n', one="export function b() {}\n")
    assert text.index("const $one") < text.index("const $main")
    assert "const { b } = $one;" in text


def test_joined_modules_keep_separate_scopes() -> None:
    text = joined(
        main='import { b as c } from "./one.js";\nconst text = c;\n',
        one="const text = 1;\nexport const b = text;\n",
    )
    assert "const { b: c } = $one;" in text
    assert text.count("const text") == 2
    assert text.count("(() => {") == 3


@pytest.mark.parametrize(
    "line",
    ['import "./one.js";', "export default 1;", "export let a = 1;", 'export * from "./one.js";'],
)
def test_a_form_that_cannot_be_joined_is_refused(line: str) -> None:
    with pytest.raises(UnknownForm):
        joined(main=f"{line}\n", one="export const b = 1;\n")


def test_modules_that_import_one_another_are_refused() -> None:
    with pytest.raises(UnknownForm):
        joined(
            main='import { a } from "./one.js";\n',
            one='import { b } from "./main.js";\nexport const a = 1;\n',
        )


def test_console_files_of_another_version_are_unavailable() -> None:
    files = ConsoleFiles()
    assert files.find(f"/console/{files.version}/{MAIN}")
    with pytest.raises(Unavailable):
        files.find(f"/console/0123456789abcdef/{MAIN}")
