"""What victims are born of, and what is deployed by them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.house import Breeder, breeding
from tests.faults.programs import Code


@pytest.fixture(scope="session")
def breeder() -> Iterator[Breeder]:
    with breeding() as made:
        yield made


@pytest.fixture
def code(tmp_path: Path) -> Code:
    return Code(tmp_path / "code")


@pytest.fixture
def postgres_url(postgres) -> Iterator[str]:
    with postgres.fresh_database() as url:
        yield url
