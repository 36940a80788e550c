"""Fixtures: the victims, and the services that they deploy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.programs import Code
from tests.forks import Brood, breeding


@pytest.fixture(scope="session")
def brood() -> Iterator[Brood]:
    with breeding("tests.faults.victim") as made:
        yield made


@pytest.fixture
def code(tmp_path: Path) -> Code:
    return Code(tmp_path / "code")


@pytest.fixture
def postgres_url(postgres) -> Iterator[str]:
    with postgres.fresh_database() as url:
        yield url
