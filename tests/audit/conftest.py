"""An installation with a chain of audit events."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.store.stores import Place


@pytest.fixture
def place(database_url: str, tmp_path: Path) -> Place:
    return Place(database_url, tmp_path)
