"""Builds on a disk that is short of its reserve."""

from __future__ import annotations

import pytest

from windlass.base import disk_reserve
from windlass.base.disk_reserve import DiskSpace
from windlass.builders.builder import BuildSettings

MIB = 1 << 20
FILES = {"requirements.txt": "", "main.py": "", "Procfile": "web: python main.py\n"}
WRITES = "python -c \"open('zeros', 'wb').write(bytes({size})); import time; time.sleep({seconds})\""


def short_after(monkeypatch, looks: int) -> None:
    """The disk is short of its reserve after so many looks."""
    seen = iter(range(looks))

    def disk_spaces(folder, wanted):
        free = 900 * MIB if next(seen, None) is not None else 200 * MIB
        return [DiskSpace("bytes", free, whole=1000 * MIB, reserve=500 * MIB)]

    monkeypatch.setattr(disk_reserve, "disk_spaces", disk_spaces)


async def test_no_build_starts_while_the_disk_is_below_its_reserve(site, monkeypatch):
    short_after(monkeypatch, 0)
    said = await site.refused(FILES)
    assert said.startswith("Ask the operator to free disk space, or to lower disk_reserve_bytes: ")


async def test_a_build_that_uses_the_reserve_is_ended(site, monkeypatch):
    short_after(monkeypatch, 1)
    command = WRITES.format(size=100 * MIB, seconds=100)
    said = await site.refused(FILES, settings=BuildSettings(build_command=command))
    assert said.startswith("Make the build write less, or ask the operator to free disk space: ")


UNLINKED = """
import os, socket, time
file = os.open("zeros", os.O_RDWR | os.O_CREAT)
os.unlink("zeros")
os.posix_fallocate(file, 0, {size})
ends = socket.socketpair()
if {sends}:
    socket.send_fds(ends[0], [b"x"], [file])
    os.close(file)
time.sleep({seconds})
"""


@pytest.mark.parametrize("sends", [False, True], ids=["open", "in a message"])
async def test_a_build_that_uses_the_reserve_with_a_file_without_a_name_is_ended(site, monkeypatch, sends):
    """Below, the control: it goes on with one of 1 MiB."""
    short_after(monkeypatch, 1)
    files = {**FILES, "hold.py": UNLINKED.format(size=100 * MIB, sends=sends, seconds=100)}
    said = await site.refused(files, settings=BuildSettings(build_command="python hold.py"))
    assert said.startswith("Make the build write less, or ask the operator to free disk space: ")


@pytest.mark.slow
async def test_a_build_with_a_small_unlinked_file_continues(site, monkeypatch):
    short_after(monkeypatch, 1)
    files = {**FILES, "hold.py": UNLINKED.format(size=MIB, sends=False, seconds=1.5)}
    artifact = await site.build(files, settings=BuildSettings(build_command="python hold.py"))
    assert site.run(artifact) == ""


@pytest.mark.slow
async def test_a_build_that_writes_little_continues_while_others_use_the_reserve(site, monkeypatch):
    short_after(monkeypatch, 1)
    command = WRITES.format(size=MIB, seconds=1.5)
    artifact = await site.build(FILES, settings=BuildSettings(build_command=command))
    assert site.run(artifact) == ""


@pytest.mark.parametrize(
    ("free", "advice"),
    [
        (63_000, "Use fewer pseudo-terminals and watches of files in the build"),
        (1, "Ask the operator to free disk space"),
    ],
)
async def test_a_no_space_error_is_attributed_to_the_disk_only_if_the_disk_is_full(
    site, monkeypatch, free, advice
):
    monkeypatch.setattr(
        disk_reserve, "disk_spaces", lambda *_: [DiskSpace("bytes", free, whole=126_000, reserve=0)]
    )
    command = "echo 'OSError: [Errno 28] No space left on device' >&2; exit 1"
    assert (await site.refused(FILES, settings=BuildSettings(build_command=command))).startswith(advice)
