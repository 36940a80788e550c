"""Streets of services whose names are contested."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.hostile.streets import Street, make_street


@pytest.fixture
async def street(database_url: str, tmp_path: Path) -> AsyncIterator[Street]:
    async with make_street(tmp_path, database_url) as made:
        yield made
