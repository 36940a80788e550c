"""Percentiles are estimated within the buckets in which a gateway counts times."""

from __future__ import annotations

from tests.tables import rows
from windlass.control.background.rates import percentiles
from windlass.routers.builtin.traffic import LATENCY_BOUNDS


def buckets(counts: dict[int, int]) -> list[int]:
    return [counts.get(bucket, 0) for bucket in range(len(LATENCY_BOUNDS) + 1)]


@rows(
    ("counts", "expected"),
    [
        ({}, (None, None, None)),
        ({0: 1}, (2.5, 4.5, 4.95)),
        ({0: 100}, (2.5, 4.5, 4.95)),
        ({2: 100}, (17.5, 23.5, 24.85)),
        ({0: 50, 3: 50}, (5, 45, 49.5)),
        ({0: 90, 10: 10}, (2.78, 5, 9500)),
        ({11: 5}, (10_000, 10_000, 10_000)),
        ({0: 1, 11: 9}, (10_000, 10_000, 10_000)),
    ],
)
def test_percentiles_are_interpolated_within_their_histogram_bucket(counts, expected):
    found = percentiles(buckets(counts))
    assert tuple(None if number is None else round(number, 2) for number in found.values()) == expected
