"""Each framework has a page of one screen: what is detected, how to change it, what to know."""

from __future__ import annotations

import re
from pathlib import Path

from tests.frameworks.pages import FOLDER, page_of, with_detected
from tests.frameworks.samples import SAMPLES
from tests.tables import rows

INDEX = FOLDER.parent / "frameworks.md"
ONE_SCREEN = 45


def test_each_page_has_a_sample_and_each_sample_a_page():
    assert {page.stem for page in FOLDER.glob("*.md")} == {*SAMPLES}


@rows("name", SAMPLES)
def test_a_framework_page_shows_the_recipe_detected_for_its_sample(name):
    """If this fails, `python -m tests.frameworks.pages` writes the pages again."""
    text = page_of(name).read_text()
    assert "<!-- detected -->" in text
    assert with_detected(name, text) == text


def test_the_check_notices_a_framework_page_with_an_outdated_recipe():
    """Negative control."""
    text = page_of("flask").read_text().replace("gunicorn app:app", "python app.py", 1)
    assert with_detected("flask", text) != text


@rows("page", sorted(FOLDER.glob("*.md")), ids=lambda page: page.stem)
def test_a_framework_page_has_the_three_sections_and_fits_one_screen(page: Path):
    text = page.read_text()
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == ["What is detected", "Change it", "What to know"]
    assert text.count("\n") <= ONE_SCREEN


@rows("page", sorted(FOLDER.glob("*.md")), ids=lambda page: page.stem)
def test_the_index_links_every_framework_page(page: Path):
    assert f"(frameworks/{page.name})" in INDEX.read_text()
