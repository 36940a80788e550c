"""The pictures of the manual are drawn from the text beside them, and can be read."""

import itertools
import runpy
import tomllib
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "docs" / "pictures"
SOURCES = sorted(FOLDER.glob("*.toml"))
drawn = runpy.run_path(str(FOLDER / "draw.py"))["drawn"]
WIDEST = {"text": 8.4, "note": 6.6}
"""Pixels for a character, in bold and in the small size of notes."""


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_each_picture_is_up_to_date_with_its_source(source):
    assert source.with_suffix(".svg").read_text() == drawn(source.read_text()), "run `make pictures`"


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_texts_fit_into_their_boxes_and_boxes_do_not_overlap(source):
    boxes = tomllib.loads(source.read_text())["box"]
    assert [box["id"] for box in boxes if not fits(box)] == []
    plain = [box for box in boxes if box.get("kind") != "group"]
    assert [
        (one["id"], other["id"]) for one, other in itertools.combinations(plain, 2) if overlap(one, other)
    ] == []


def test_the_check_finds_overlong_texts_and_overlapping_boxes():
    box = {"id": "a", "at": [0, 0], "size": [60, 40], "text": "much too long"}
    assert not fits(box)
    assert overlap(box, {**box, "at": [50, 30]})


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_each_picture_is_used_on_a_page(source):
    pages = [*FOLDER.parent.glob("*.md"), FOLDER.parent.parent / "README.md"]
    assert any(f"pictures/{source.stem}.svg" in page.read_text() for page in pages)


def fits(box):
    lines = [("text", box["text"]), *(("note", line) for line in box.get("note", "").splitlines())]
    return all(len(line) * WIDEST[kind] <= box["size"][0] for kind, line in lines)


def overlap(one, other):
    return all(
        one["at"][axis] < other["at"][axis] + other["size"][axis]
        and other["at"][axis] < one["at"][axis] + one["size"][axis]
        for axis in (0, 1)
    )
