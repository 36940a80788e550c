"""The journal of a gateway."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from windlass.gateway import journal as journals
from windlass.gateway.files import JOURNAL
from windlass.gateway.journal import Journal
from windlass.gateway.messages import Change, Keep, Open, Reserve, SetRoutes
from windlass.routers.router import Endpoint, Route


def test_a_journal_is_whole_again_when_the_disk_has_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / JOURNAL
    journal = Journal(path)
    journal.open()
    journal.note(Open("local", "127.0.0.1", 80))

    def write_half(file: int, content: memoryview) -> int:
        if len(content) > 5:
            return write(file, content[:5])
        raise OSError(errno.ENOSPC, "No space left on device")

    write = os.write
    with monkeypatch.context() as full:
        full.setattr(os, "write", write_half)
        journal.note(Reserve("local", "shop", ()))
        assert not list(tmp_path.iterdir())
    journal.note(Reserve("local", "desk", ()))
    journal.close()
    again = Journal(path)
    again.open()
    again.close()
    assert set(again.told) == set(journal.told)
    assert len(again.told) == 3


def test_a_journal_with_a_truncated_last_change_restores_all_earlier_changes(tmp_path: Path):
    path = tmp_path / JOURNAL
    journal = Journal(path)
    journal.open()
    changes: list[Change] = [
        Open("local", "127.0.0.1", 80),
        *(Reserve("local", f"s{n}", ()) for n in range(10)),
    ]
    for change in changes:
        journal.note(change)
    journal.close()
    whole = path.read_bytes()
    ends, at = [], 0
    while at < len(whole):
        at += 4 + int.from_bytes(whole[at : at + 4])
        ends.append(at)
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        again = Journal(path)
        again.open()
        told = list(again.told)
        complete = sum(end <= size for end in ends[1:])  # the first one names the boot of the machine
        assert told == changes[:complete]
        again.close()


def test_the_journal_does_not_grow_with_replaced_changes(tmp_path: Path):
    journal = Journal(tmp_path / JOURNAL)
    journal.open()
    lasting: list[Change] = [Open("local", "127.0.0.1", 80), Reserve("local", "shop", ())]
    for _ in range(10_000):
        for change in lasting:
            journal.note(change)
    assert (tmp_path / JOURNAL).stat().st_size < 200_000
    assert list(journal.told) == lasting
    journal.close()


def test_routes_of_an_earlier_boot_lead_to_no_instance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    journal = Journal(tmp_path / JOURNAL)
    journal.open()
    served = Route(service="s", port="http", title="S", kind="http", endpoints=(Endpoint("127.0.0.1", 1),))
    site = Route(service="t", port="http", title="T", kind="http", site="/folder")
    journal.note(door := Open("local", "127.0.0.1", 80))
    for route in (served, site):
        journal.note(SetRoutes("local", route.service, (route,)))
    journal.note(Keep(stays=True))
    journal.close()

    def routes() -> list[Change]:
        again = Journal(tmp_path / JOURNAL)
        again.open()
        again.close()
        return list(again.told)

    assert SetRoutes("local", "s", (served,)) in routes()
    later = tmp_path / "boot"
    later.write_text("another boot\n")
    monkeypatch.setattr(journals, "_BOOT_ID_FILE", later)
    assert routes() == [
        door,
        SetRoutes("local", "s", (replace(served, endpoints=()),)),
        SetRoutes("local", "t", (site,)),
    ]
