"""Files that the engine reads at each start of a container are examined as the engine would find them."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

import pytest

from windlass.docker.client import EngineRefused
from windlass.docker.start_files import MAX_FILE_BYTES, examine
from windlass.engines.engine import EngineError

FOLDER, LINK, FIFO, DEVICE = 1 << 31, 1 << 27, 1 << 25, 1 << 26
USUAL = {"/etc": {"mode": FOLDER}, "/etc/passwd": {"mode": 0o644}, "/etc/group": {"mode": 0o644}}


class FakeDocker:
    def __init__(self, files: Mapping[str, Mapping[str, Any]]) -> None:
        self._files = files
        self.asked: list[str] = []

    async def headers(self, path: str, params: Mapping[str, str]) -> Mapping[str, str]:
        self.asked.append(params["path"])
        if (facts := self._files.get(params["path"])) is None:
            raise EngineRefused(404, "status 404")
        return {"X-Docker-Container-Path-Stat": base64.b64encode(json.dumps(facts).encode()).decode()}


def link(target: str) -> dict[str, Any]:
    return {"mode": LINK, "linkTarget": target}


@pytest.mark.parametrize(
    ("files", "mounts"),
    [
        ({}, ()),
        ({"/etc": {"mode": FOLDER}}, ()),
        (USUAL, ("/data", "/etc/app")),
        ({**USUAL, "/etc/group": {"mode": 0o644, "size": MAX_FILE_BYTES}}, ()),
        ({**USUAL, "/etc/group": link("../a/group"), "/a": {"mode": FOLDER}, "/a/group": {"mode": 0}}, ()),
        ({**USUAL, "/etc/group": link("gone")}, ()),
    ],
)
async def test_short_regular_files_and_symlinks_to_them_are_accepted(files, mounts):
    docker = FakeDocker(files)
    await examine(docker, "c", mounts)  # type: ignore[arg-type]
    assert docker.asked[0] == "/etc"


@pytest.mark.parametrize(
    ("files", "mounts", "message"),
    [
        ({**USUAL, "/etc/group": {"mode": FIFO}}, (), "Make /etc/group of the image a plain file"),
        ({**USUAL, "/etc/passwd": {"mode": DEVICE}}, (), "Make /etc/passwd of the image a plain file"),
        ({**USUAL, "/etc/group": {"mode": 0, "size": MAX_FILE_BYTES + 1}}, (), "at most 1 MiB"),
        ({**USUAL, "/etc/group": link("/p"), "/p": {"mode": FIFO}}, (), "Make /etc/group of the image"),
        ({**USUAL, "/etc/group": link("group")}, (), "a chain of links"),
        ({"/etc": link("/a"), "/a": {"mode": FOLDER}}, (), "Make /etc of the image a folder"),
        (
            {**USUAL, "/etc/group": link("/a/group"), "/a": link("/b"), "/b": {"mode": FOLDER}},
            (),
            "Make /a of the image a folder",
        ),
        (USUAL, ("/etc",), "Mount the volume elsewhere: the image itself needs /etc"),
        (
            {
                **USUAL,
                "/etc/group": link("/data/group"),
                "/data": {"mode": FOLDER},
                "/data/group": {"mode": 0},
            },
            ("/data",),
            "Mount the volume elsewhere: the image itself needs /data",
        ),
    ],
)
async def test_any_other_file_that_the_engine_reads_at_a_start_is_refused(files, mounts, message):
    with pytest.raises(EngineError, match=message):
        await examine(FakeDocker(files), "c", mounts)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "stat", ["", "?", base64.b64encode(b"[]").decode(), base64.b64encode(b"{}").decode()]
)
async def test_undecodable_file_information_is_refused(stat):
    class Nonsense(FakeDocker):
        async def headers(self, path: str, params: Mapping[str, str]) -> Mapping[str, str]:
            return {"X-Docker-Container-Path-Stat": stat}

    with pytest.raises(EngineError):
        await examine(Nonsense({}), "c", ())  # type: ignore[arg-type]


async def test_a_program_with_a_copy_of_etc_has_no_link_to_a_file_outside_of_it():
    inside = {**USUAL, "/etc/group": link("a/group"), "/etc/a": {"mode": FOLDER}, "/etc/a/group": {"mode": 0}}
    await examine(FakeDocker(inside), "c", (), has_etc_copy=True)  # type: ignore[arg-type]
    outside = {**USUAL, "/etc/group": link("../a/group"), "/a": {"mode": FOLDER}, "/a/group": {"mode": 0}}
    await examine(FakeDocker(outside), "c", ())  # type: ignore[arg-type]
    with pytest.raises(EngineError, match="with USER, it cannot be a link to /a/group"):
        await examine(FakeDocker(outside), "c", (), has_etc_copy=True)  # type: ignore[arg-type]
