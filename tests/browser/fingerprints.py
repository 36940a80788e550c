"""Fingerprints of pictures: the mean brightness of each part of a page. Small changes do not matter to them;
a part that is missing, moved, empty or of the other theme does.

`python -m tests.browser.fingerprints FOLDER` writes those of the present pages into fingerprints.json and the
pictures into a folder: they have to be looked at before the fingerprints are committed.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from playwright.sync_api import Page

KEPT: Final = Path(__file__).with_suffix(".json")
COLUMNS, ROWS = 16, 10
TOLERANCE: Final = 5.0
"""Units of 255. The same page differs by 1; without its head by 6 to 20, without the side bar by 15."""
_WORST = 20
FONTS: Final = "fonts"
"""The key of the widths of texts. Pictures with other fonts cannot be compared: they differ by 2 to 12."""
_WIDTHS = """() => ['var(--sans)', 'var(--mono)'].map((family) => {
  const text = document.body.appendChild(document.createElement('span'));
  text.style.setProperty('font-family', family);
  text.textContent = 'The quick brown fox jumps over the lazy dog 0123456789';
  const { width } = text.getBoundingClientRect();
  text.remove();
  return width.toFixed(1);
}).join(' ')"""
WRITES: Final = "WINDLASS_WRITE_FINGERPRINTS"
"""The variable with the folder of the pictures, while fingerprints are written."""
_READ = """async ([data, columns, rows]) => {
  const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
  const picture = await createImageBitmap(new Blob([bytes], { type: 'image/png' }));
  const canvas = new OffscreenCanvas(picture.width, picture.height);
  const drawing = canvas.getContext('2d');
  drawing.drawImage(picture, 0, 0);
  const { data: dots } = drawing.getImageData(0, 0, picture.width, picture.height);
  const sums = Array.from({ length: columns * rows }, () => [0, 0]);
  for (let y = 0; y < picture.height; y++) {
    for (let x = 0; x < picture.width; x++) {
      const row = Math.floor((y * rows) / picture.height);
      const sum = sums[row * columns + Math.floor((x * columns) / picture.width)];
      const dot = (y * picture.width + x) * 4;
      sum[0] += (dots[dot] + dots[dot + 1] + dots[dot + 2]) / 3;
      sum[1]++;
    }
  }
  return sums.map(([sum, count]) => Math.round(sum / count));
}"""


def fingerprint(blank: Page, picture: bytes) -> str:
    """Reads a picture in an empty page."""
    parts = blank.evaluate(_READ, [base64.b64encode(picture).decode(), COLUMNS, ROWS])
    return "".join(f"{value:02x}" for value in parts)


def distance(one: str, other: str) -> float:
    """The mean difference of the parts that differ most."""
    parts = sorted(
        abs(here - there) for here, there in zip(bytes.fromhex(one), bytes.fromhex(other), strict=True)
    )
    return sum(parts[-_WORST:]) / _WORST


def fonts(page: Page) -> str:
    return str(page.evaluate(_WIDTHS))


def kept() -> dict[str, str]:
    return dict(json.loads(KEPT.read_text())) if KEPT.exists() else {}


def keep(found: dict[str, str]) -> None:
    KEPT.write_text(json.dumps(dict(sorted((kept() | found).items())), indent=0) + "\n")


if __name__ == "__main__":
    words = [sys.executable, "-m", "pytest", "-n", "0", "-s", "tests/browser/test_pictures.py"]
    run = {WRITES: str(Path(sys.argv[1]).resolve()), "WINDLASS_TESTS": "nightly"}
    sys.exit(subprocess.run(words, env=os.environ | run, check=False).returncode)
