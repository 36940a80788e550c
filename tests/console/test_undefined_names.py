"""Names in modules of the console are declared there, imported from where they exist, or the browser's. Each
that is declared or imported is used."""

from __future__ import annotations

import functools
import re
import subprocess
from pathlib import Path

import pytest

from tests.compat.npm import HERE, install_packages
from windlass.console.files import ROOT

_UNDEFINED = re.compile(r"error TS(?:2304|2305|2307|2552|2724): (.+)$", re.MULTILINE)
"""A name, a module, or an export of one that is not there, also where the compiler proposes another name."""
_UNUSED = re.compile(r"error TS(?:6133|6192|6196|6198): (.+)$", re.MULTILINE)
"""A name that is declared or imported, and not used."""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def compiler() -> None:
    install_packages()


def names(folder: Path, kind: re.Pattern[str]) -> list[str]:
    return kind.findall(compiled(folder))


@functools.cache
def compiled(folder: Path) -> str:
    words = (
        "--noUnusedLocals --allowJs --checkJs --noEmit --noUncheckedSideEffectImports --target esnext "
        "--module esnext --moduleResolution bundler --lib esnext,dom,dom.iterable"
    )
    modules = sorted(str(path) for path in folder.rglob("*.js"))
    assert modules
    done = subprocess.run(
        [HERE / "node_modules/.bin/tsc", *words.split(), *modules], cwd=HERE, capture_output=True, text=True
    )
    assert "error TS5" not in done.stdout, f"the compiler refuses its options: {done.stdout}"
    return done.stdout


def test_no_console_module_uses_an_undefined_name(scripts):
    assert names(scripts, _UNDEFINED) == []


def test_no_console_module_has_an_unused_name(scripts):
    assert names(scripts, _UNUSED) == []


@pytest.mark.nightly
def test_the_search_finds_undefined_names_and_imports(tmp_path):
    (tmp_path / "parts.js").write_text("export const panel = 1;\n")
    (tmp_path / "page.js").write_text(
        'import { panel, pannel } from "./parts.js";\nimport { link } from "./gone.js";\n'
        "const shown = panel + link;\nuse(shwon, pannel, document);\n"
    )
    found = names(tmp_path, _UNDEFINED)
    assert len(found) == 4
    for name, reason in zip(("'pannel'", "'./gone.js'", "'use'", "'shwon'"), found, strict=True):
        assert name in reason


@pytest.mark.nightly
def test_the_search_finds_unused_names(tmp_path):
    (tmp_path / "page.js").write_text("const shown = 1;\nexport const used = 2;\n")
    (found,) = names(tmp_path, _UNUSED)
    assert "'shown'" in found


def formatted_counts(words: str, source: str) -> set[str]:
    """Returns the texts that count, but get a number that is a text already: they would say "NaN lines"."""
    counting = set(re.findall(r"(\w+): \(count\b[^)]*\) =>", words))
    return counting & set(re.findall(r"\.(\w+)\(number\(", source))


def test_texts_with_plural_forms_get_numbers_and_not_formatted_strings():
    words = (ROOT / "js/words.js").read_text()
    sources = "".join(path.read_text() for path in ROOT.rglob("*.js"))
    assert formatted_counts(words, sources) == set()
    assert formatted_counts(words, "text.lines(number(1000), true)") == {"lines"}
