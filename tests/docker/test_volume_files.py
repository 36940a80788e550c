"""Which containers may have left links to volumes that others change."""

from __future__ import annotations

import pytest

from windlass.docker.volume_files import may_be_redirected


@pytest.mark.parametrize(
    ("shared", "own", "is_redirected"),
    [
        ((), (), False),
        (("/data",), (), False),
        (("/var/lib/data",), (), False),
        (("/data", "/other"), (), False),
        (("/var/lib/data",), ("/cache",), False),
        (("/data", "/var/lib/other"), (), True),
        (("/data",), ("/var/cache",), True),
        ((), ("/var/cache", "/var/other"), False),
    ],
)
def test_a_mount_point_below_a_folder_may_be_redirected_into_another_volume(shared, own, is_redirected):
    assert may_be_redirected(shared, own) is is_redirected
