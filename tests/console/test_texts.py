"""The texts of the console are in one file: it has each that a page names, and a page names each of them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.needs import program

pytestmark = pytest.mark.slow


def test_every_text_used_by_a_page_is_in_the_texts_file(scripts: Path) -> None:
    node = program("node")
    script = Path(__file__).with_name("missing_texts.mjs")
    done = subprocess.run([node, str(script), str(scripts)], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []


def texts_that_no_page_names(folder: Path) -> list[str]:
    node = program("node")
    script = Path(__file__).with_name("unused_texts.mjs")
    done = subprocess.run([node, str(script), str(folder)], capture_output=True, text=True, check=True)
    return list(json.loads(done.stdout))


def test_every_text_in_the_texts_file_is_used_by_a_page(scripts: Path) -> None:
    assert texts_that_no_page_names(scripts) == []


def test_the_search_finds_texts_that_no_page_uses(tmp_path: Path) -> None:
    (tmp_path / "words.js").write_text("export const words = { a: { b: '', c: '' }, d: { e: '' }, f: '' };\n")
    (tmp_path / "page.js").write_text("const text = words.a;\nuse(text.b, words.d[name]); // words.f\n")
    assert texts_that_no_page_names(tmp_path) == ["words.a.c", "words.f"]


def test_the_search_finds_undefined_and_inline_texts(tmp_path: Path) -> None:
    node = program("node")
    (tmp_path / "words.js").write_text("export const words = { a: { b: 'c' } };\n")
    (tmp_path / "words_of_shops.js").write_text("export const shops = { d: 'e' };\n")
    (tmp_path / "page.js").write_text(
        'import { shops } from "./words_of_shops.js";\n'
        'const text = words.a;\nuse(text.b, text.x, words.y, shops.d, shops.z, "Read the manual");\n'
    )
    script = Path(__file__).with_name("missing_texts.mjs")
    done = subprocess.run([node, str(script), str(tmp_path)], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [
        'page.js: "Read the manual"',
        "page.js: words.y",
        "page.js: shops.z",
        "page.js: text.x",
    ]
