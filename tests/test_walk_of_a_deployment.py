"""The page about the walk of a deployment names the functions that it goes through, in their order."""

from __future__ import annotations

import inspect
import re
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from tests.world import World

PAGE = Path(__file__).parent.parent / "docs" / "walk-of-a-deployment.md"
ROW = re.compile(r"^\| \d+ \| `([\w.]+)` \| `([\w.]+)` \|", re.MULTILINE)


def rows() -> list[tuple[str, str]]:
    """Module and function of each row of the page."""
    return [(f"windlass.{folder}", function) for function, folder in ROW.findall(PAGE.read_text())]


LOWEST = {"request", "records", "context"}
"""Folders that all others use. They call no folder above them, except for the handler of an operation."""


class Entry(NamedTuple):
    """A call of a function of `control`: its module and name, and the folder of its caller."""

    module: str
    function: str
    caller: str
    is_coroutine: bool

    @property
    def folder(self) -> str:
        return folder_of(self.module)


def folder_of(module: str) -> str:
    return module.removeprefix("windlass.control.").partition(".")[0]


@contextmanager
def entered() -> Iterator[list[Entry]]:
    """The calls of functions of `control`, in their order."""
    entries: list[Entry] = []
    frames: dict[int, FrameType] = {}
    found: list[Entry] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        module = module_of(frame)
        # A coroutine that goes on after it has waited is called again, with the same frame.
        if event == "call" and module.startswith("windlass.control.") and id(frame) not in frames:
            frames[id(frame)] = frame
            flags = frame.f_code.co_flags & inspect.CO_COROUTINE
            found.append(Entry(module, frame.f_code.co_qualname, caller_of(frame), bool(flags)))

    sys.setprofile(note)
    try:
        yield entries
    finally:
        sys.setprofile(None)
        entries += found


def module_of(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def caller_of(frame: FrameType) -> str:
    """The folder that this call comes from; empty for a call by the event loop or by another package."""
    caller = frame.f_back
    while caller is not None:
        if module_of(caller).startswith("windlass.control."):
            return folder_of(module_of(caller))
        caller = caller.f_back
    return ""


def handovers(entries: list[Entry]) -> list[tuple[str, str]]:
    """Calls from one folder to another that wait for something, each run of equal ones once."""
    calls = [
        (entry.caller, entry.folder)
        for entry in entries
        if entry.is_coroutine and entry.caller not in ("", entry.folder) and entry.folder not in LOWEST
    ]
    return [call for call, _ in groupby(calls)]


def crossings(folders: list[str]) -> list[str]:
    """The folders in the order of the walk, each run of equal ones once."""
    return [folder for folder, _ in groupby(folders)]


def is_once_down_and_once_back(folders: list[str]) -> bool:
    """True if no folder repeats on the way down, and the way back is in the opposite order."""
    down = crossings(folders)
    turn = next((n for n, folder in enumerate(down) if folder in down[:n]), len(down))
    order = [down.index(folder) if folder in down[:turn] else turn for folder in down[turn:]]
    return order == sorted(set(order), reverse=True) and turn not in order


def arrows() -> set[tuple[str, str]]:
    picture = tomllib.loads((PAGE.parent / "pictures" / "walk.toml").read_text())
    return {(arrow["from"], arrow["to"]) for arrow in picture["arrow"]}


async def walk(world: World) -> list[Entry]:
    app = await world.application()
    with entered() as entries:
        assert (await world.post(f"/application/{app}/deploy")).status == 202
        await world.settle()
    assert await world.state(f"/application/{app}") == "RUNNING"
    return entries


async def test_a_deployment_calls_the_functions_listed_on_the_page_in_order(world: World):
    names = [*dict.fromkeys((entry.module, entry.function) for entry in await walk(world))]
    assert len(rows()) > 20
    assert [name for name in names if name in rows()] == rows()


def test_each_folder_on_the_page_is_entered_once_on_the_way_down_and_once_back():
    folders = [folder_of(module) for module, _ in rows()]
    assert is_once_down_and_once_back(folders), crossings(folders)
    assert set(folders) > {"request", "services", "records", "background", "deploying", "kinds", "workloads"}


async def test_the_calls_between_folders_are_exactly_the_arrows_of_the_picture(world: World):
    walked = handovers(await walk(world))
    assert sorted(walked) == sorted(set(walked))
    between = {folder for call in walked for folder in call} | LOWEST
    drawn = {(one, other) for one, other in arrows() if {one, other} <= between and other not in LOWEST}
    assert set(walked) == drawn


def test_the_check_notices_a_folder_that_is_entered_again():
    assert is_once_down_and_once_back(["a", "b", "b", "c", "b", "a"])
    assert is_once_down_and_once_back(["a", "b", "c", "a"])
    assert not is_once_down_and_once_back(["a", "b", "c", "b", "c"])
    assert not is_once_down_and_once_back(["a", "b", "a", "c"])
    assert not is_once_down_and_once_back(["a", "b", "c", "a", "b"])


async def test_a_read_request_calls_none_of_the_functions_on_the_page(world: World):
    app = await world.application()
    with entered() as entries:
        await world.get(f"/application/{app}")
    assert not {(entry.module, entry.function) for entry in entries} & set(rows())
    assert handovers(entries) == []
