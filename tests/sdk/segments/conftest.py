"""A log in a folder of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sdk.segments.lines import PLENTY
from windlass.base.segments import Segments


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "logs"


@pytest.fixture
def log(root: Path) -> Iterator[Segments]:
    """With so little room in a segment that there are many of them."""
    made = Segments(root, PLENTY, size=4096)
    yield made
    made.close()
