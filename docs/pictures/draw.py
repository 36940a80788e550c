"""Draws the pictures of the manual: each .toml file of this folder becomes the .svg file of the same name.

A picture is boxes and arrows. A box has an id, a place and a size in pixels, a text and perhaps a note below
it; an arrow leads from one box to another, between the sides that face each other. Colours follow the
reader's light or dark theme.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any, Final, NamedTuple

FOLDER: Final = Path(__file__).parent
_LINE: Final = 17
_STYLE: Final = """
  text { font: 14px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; fill: #1c2430; }
  .note { font-size: 12px; fill: #5b6675; }
  .name { font-weight: 600; }
  rect { fill: #ffffff; stroke: #c3ccd8; stroke-width: 1.25; }
  .group rect { fill: #f4f6f9; stroke: #dde3ea; }
  .good rect { fill: #e8f6ee; stroke: #57b380; }
  .bad rect { fill: #fdecea; stroke: #d9776c; }
  .main rect { fill: #e9f0fe; stroke: #5b86d9; }
  .outside rect { stroke-dasharray: 5 4; }
  path { fill: none; stroke: #74808f; stroke-width: 1.5; }
  .dashed { stroke-dasharray: 5 4; }
  marker path { fill: #74808f; stroke: none; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6eaf0; }
    .note { fill: #a3adba; }
    rect { fill: #1d242e; stroke: #4a5665; }
    .group rect { fill: #161c24; stroke: #303a46; }
    .good rect { fill: #16301f; stroke: #4f9a70; }
    .bad rect { fill: #37201d; stroke: #b8645a; }
    .main rect { fill: #1a2740; stroke: #5b86d9; }
    path { stroke: #8b97a6; }
    marker path { fill: #8b97a6; }
  }
"""


class Box(NamedTuple):
    x: float
    y: float
    width: float
    height: float


def drawn(source: str) -> str:
    """Returns the SVG of a picture."""
    picture = tomllib.loads(source)
    boxes = {box["id"]: Box(*box["at"], *box["size"]) for box in picture["box"]}
    width, height = picture["size"]
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}"'
        f' height="{height}" role="img" aria-label="{escape(picture["title"])}">',
        f"<title>{escape(picture['title'])}</title>",
        f"<style>{_STYLE}</style>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7"'
        ' orient="auto"><path d="M0 0L8 4L0 8z"/></marker></defs>',
        *(line for box in picture["box"] for line in _box(box)),
        *(line for arrow in picture.get("arrow", ()) for line in _arrow(arrow, boxes)),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _box(box: dict[str, Any]) -> Iterator[str]:
    x, y, width, height = Box(*box["at"], *box["size"])
    kind = box.get("kind", "plain")
    yield f'<g class="{kind}"><rect x="{x}" y="{y}" width="{width}" height="{height}" rx="8"/>'
    notes = box["note"].splitlines() if box.get("note") else []
    if kind == "group":
        yield _text(x + 12, y + 20, box["text"], "name", "start")
    else:
        top = y + height / 2 - (len(notes) * _LINE) / 2 + 5
        yield _text(x + width / 2, top, box["text"], "name")
        for number, note in enumerate(notes, 1):
            yield _text(x + width / 2, top + number * _LINE, note, "note")
    yield "</g>"


def _arrow(arrow: dict[str, Any], boxes: dict[str, Box]) -> Iterator[str]:
    start, end = boxes[arrow["from"]], boxes[arrow["to"]]
    (x1, y1), (x2, y2) = _ends(start, end, arrow.get("shift", 0))
    dashed = ' class="dashed"' if arrow.get("dashed") else ""
    if x1 in (x2,) or y1 in (y2,):
        way = f"M{x1:g} {y1:g}L{x2:g} {y2:g}"
    elif arrow.get("first") == "across":
        way = f"M{x1:g} {y1:g}H{x2:g}V{y2:g}"
    else:
        way = f"M{x1:g} {y1:g}C{x1:g} {(y1 + y2) / 2:g} {x2:g} {(y1 + y2) / 2:g} {x2:g} {y2:g}"
    yield f'<path d="{way}" marker-end="url(#tip)"{dashed}/>'
    if label := arrow.get("label"):
        dx, dy = arrow.get("label_at", (8, -6) if x1 == x2 else (0, -8))
        yield _text((x1 + x2) / 2 + dx, (y1 + y2) / 2 + dy, label, "note", "start" if x1 == x2 else "middle")


def _ends(start: Box, end: Box, shift: float) -> tuple[tuple[float, float], tuple[float, float]]:
    """The middle of what two boxes have in common, on the sides that face each other."""
    left, right = max(start.x, end.x), min(start.x + start.width, end.x + end.width)
    top, bottom = max(start.y, end.y), min(start.y + start.height, end.y + end.height)
    if left < right:
        x, down = (left + right) / 2 + shift, end.y > start.y
        return (x, start.y + start.height * down), (x, end.y + end.height * (not down))
    if top < bottom:
        y, on = (top + bottom) / 2 + shift, end.x > start.x
        return (start.x + start.width * on, y), (end.x + end.width * (not on), y)
    down = end.y > start.y
    return (
        (start.x + start.width / 2 + shift, start.y + start.height * down),
        (end.x + end.width / 2, end.y + end.height * (not down)),
    )


def _text(x: float, y: float, text: str, kind: str, anchor: str = "middle") -> str:
    return f'<text x="{x:g}" y="{y:g}" class="{kind}" text-anchor="{anchor}">{escape(text)}</text>'


def main() -> None:
    for source in sorted(FOLDER.glob("*.toml")):
        source.with_suffix(".svg").write_text(drawn(source.read_text()))
        sys.stdout.write(f"drew {source.stem}.svg\n")


if __name__ == "__main__":
    main()
