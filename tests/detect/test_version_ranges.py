"""Ranges of versions, as manifests write them."""

from __future__ import annotations

import pytest

from tests.tables import rows
from windlass.detect import is_in_range, plain_version

ROWS = [
    ("18", "18.20.1 18.0.0", "20.1.0 1.8.0"),
    ("v20.11.1", "20.11.1", "20.11.2"),
    ("lts/jod", "22.4.0", "20.4.0"),
    ("lts/*", "22.4.0 18.0.0", ""),
    (">=18 <21", "18.0.0 20.9.9", "21.0.0 16.1.0"),
    ("^18.18.0 || >=20", "18.18.2 20.0.0 24.1.1", "18.17.0 19.9.9"),
    ("^0.2.3", "0.2.9", "0.3.0 0.2.2"),
    ("~20.1", "20.1.9", "20.2.0"),
    ("20.x", "20.9.9", "21.0.0"),
    ("18 - 20", "18.0.0 20.9.1", "21.0.0 17.9.9"),
    (">=3.10,<4", "3.10.0 3.13.1", "3.9.9 4.0.0"),
    ("^3.11", "3.11.0 3.14.2", "3.10.9 4.0.0"),
    ("~=3.10", "3.11.4", "4.0.0 3.9.1"),
    ("~=3.10.2", "3.10.7", "3.11.0 3.10.1"),
    ("==3.12.*", "3.12.4", "3.13.0"),
    (">3.10", "3.11.0", "3.10.4"),
    ("!=3.11.*,>=3.9", "3.10.1 3.12.0", "3.11.4"),
    ("<=20", "20.5.5 18.1.1", "21.0.0"),
    ("latest", "20.5.5", ""),
    ("", "20.5.5", ""),
]


@rows(("wanted", "inside", "outside"), ROWS, ids=[row[0] for row in ROWS])
def test_a_version_range_contains_the_expected_versions(wanted, inside, outside):
    assert [version for version in inside.split() if not is_in_range(version, wanted)] == []
    assert [version for version in outside.split() if is_in_range(version, wanted)] == []


@pytest.mark.parametrize(
    ("wanted", "plain"),
    [("v20.11.1", "20.11.1"), ("3.12", "3.12"), ("20.x", "20"), (">=20", ""), ("lts/iron", "20"), ("a", "")],
)
def test_a_single_version_is_distinguished_from_a_range(wanted, plain):
    assert plain_version(wanted) == plain


def test_only_the_beginning_of_a_long_range_is_read():
    assert not is_in_range("20.1.1", "1" * 200_000 + " 2" * 100_000)
