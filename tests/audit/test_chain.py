"""The chain of audit events shows every change, removal and addition."""

from __future__ import annotations

import asyncio
import hashlib
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from tests.audit.chains import adding, verdict
from tests.store.stores import Place
from windlass.cli.main import main
from windlass.store.chain import FIRST_HASH, Head, chain_rows, hash_of
from windlass.terminal.command_errors import CommandRefused

COUNT = 9


@pytest.fixture
async def written(place: Place) -> Place:
    """Writes events 1 to 9, in groups of three, while no server runs."""
    async with place.opened() as store:
        for group in range(3):
            await asyncio.gather(*(store.write(adding(f"{group}-{n}")) for n in range(3)))
    return place


async def test_an_untouched_chain_is_valid(written: Place):
    found = await verdict(written)
    assert (found.events, found.first, found.number, found.faults) == (COUNT, 1, COUNT, [])
    assert (await verdict(written, found.head)).faults == []


async def test_the_chain_hash_is_reproducible_from_the_documented_columns_without_a_secret(written: Place):
    """From the description alone, with another implementation of what it names."""
    before = bytes(32)
    columns = (
        "seq, id, org, kind, target, at, body, family, subject, subject_family, actor, origin, project, "
        "environment"
    )
    for *event, hash in await written.sql(f"SELECT {columns}, hash FROM event ORDER BY seq"):
        before = hashlib.sha256(before + msgspec.msgpack.encode(event)).digest()
        assert before == hash


CHANGES = {
    "body": "UPDATE event SET body = (SELECT body FROM event WHERE seq = 1) WHERE seq = 5",
    "actor": "UPDATE event SET actor = 'somebody else' WHERE seq = 5",
    "kind": "UPDATE event SET kind = 'DELETE' WHERE seq = 5",
    "at": "UPDATE event SET at = at - 1 WHERE seq = 5",
    "org": "UPDATE event SET org = 'another' WHERE seq = 5",
    "project": "UPDATE event SET project = 'another' WHERE seq = 5",
    "hash": "UPDATE event SET hash = (SELECT hash FROM event WHERE seq = 1) WHERE seq = 5",
    "no hash": "UPDATE event SET hash = 'none' WHERE seq = 5",
}


@pytest.mark.parametrize("change", CHANGES)
async def test_verification_reports_the_number_of_a_modified_event(written: Place, change: str):
    await written.sql(CHANGES[change])
    assert (await verdict(written)).faults[0].startswith("Event 5 ")


@pytest.mark.parametrize(
    ("which", "said"), [("4", "Event 4: removed."), ("4,5,6", "Events 4 to 6: removed.")]
)
async def test_verification_reports_the_numbers_of_removed_audit_events(
    written: Place, which: str, said: str
):
    await written.sql(f"DELETE FROM event WHERE seq IN ({which})")
    assert (await verdict(written)).faults == [said]


async def test_verification_reports_the_removal_of_the_first_event(written: Place):
    await written.sql("DELETE FROM event WHERE seq = 1")
    assert (await verdict(written)).faults == ["Event 1: removed."]


async def test_verification_reports_an_audit_event_added_later(written: Place):
    columns = (
        "id, org, kind, target, at, body, family, subject, subject_family, actor, origin, project, "
        "environment, hash"
    )
    await written.sql(f"INSERT INTO event (seq, {columns}) SELECT 10, {columns} FROM event WHERE seq = 3")
    found = await verdict(written)
    assert found.faults[0].startswith("Event 10 ")
    assert found.faults[1] == "Event 10: added; they were never numbered."


async def test_events_that_changed_places_are_named(written: Place):
    for statement in (
        "UPDATE event SET seq = -1 WHERE seq = 4",
        "UPDATE event SET seq = 4 WHERE seq = 5",
        "UPDATE event SET seq = 5 WHERE seq = -1",
    ):
        await written.sql(statement)
    faults = (await verdict(written)).faults
    assert faults[0].startswith("Event 4 ")
    assert faults[1].startswith("Event 5 ")


async def test_verification_detects_truncation_at_the_end_by_the_event_count(written: Place):
    await written.sql("DELETE FROM event WHERE seq > 7")
    assert (await verdict(written)).faults == ["Events 8 to 9: removed, at the end."]


async def test_a_truncated_chain_with_an_adjusted_counter_is_detected_by_the_noted_head(written: Place):
    head = (await verdict(written)).head
    await written.sql("DELETE FROM event WHERE seq > 7")
    await written.sql("UPDATE counter SET value = 7 WHERE name = 'event'")
    assert (await verdict(written)).faults == [], "nothing in the database tells"
    assert (await verdict(written, head)).faults == ["Events 8 to 9: cut off at the end; 9 was noted."]


async def test_a_rewritten_chain_differs_from_the_recorded_head(written: Place):
    head = (await verdict(written)).head
    await forge(written)
    assert (await verdict(written)).faults == [], "nothing in the database tells"
    assert (await verdict(written, head)).faults == ["Event 9: has another hash than the one that was noted."]


async def forge(place: Place) -> None:
    """Forges events as an attacker can who may write to the database and knows how the chain is made."""
    await place.sql("UPDATE event SET actor = 'somebody else' WHERE seq = 2")
    columns = (
        "seq, id, org, kind, target, at, body, family, subject, subject_family, actor, origin, project, "
        "environment"
    )
    before = FIRST_HASH
    for event in await place.sql(f"SELECT {columns} FROM event ORDER BY seq"):
        before = hash_of(before, event)
        await place.sql("UPDATE event SET hash = $1 WHERE seq = $2", before, event[0])


@pytest.mark.parametrize("head", ["9", "9:abc", "x:" + "0" * 64, ":", "9 " + "0" * 64])
async def test_a_noted_chain_head_that_is_not_number_and_hash_is_refused(written: Place, head: str):
    with pytest.raises(CommandRefused, match="NUMBER:HASH"):
        await verdict(written, head)


async def test_events_written_after_a_truncation_do_not_hide_it(written: Place):
    """Later entries hide nothing."""
    await written.sql("DELETE FROM event WHERE seq > 7")
    async with written.opened() as store:
        await store.write(adding("later"))
    assert (await verdict(written)).faults == ["Events 8 to 9: removed."]


# The command


def test_the_audit_verify_command_prints_the_head_and_exits_with_1_for_a_broken_chain(tmp_path: Path):
    place = Place("", tmp_path)

    async def fill() -> None:
        async with place.opened() as store:
            await store.write(adding("one"))
            await store.write(adding("two"))

    asyncio.run(fill())
    well = command(place, "--text")
    assert well.exit_code == 0, well.output
    assert "2 events" in well.output
    assert "They hold together." in well.output
    head = json.loads(command(place, "--json").output)["head"]
    assert head in well.output
    asyncio.run(place.sql("UPDATE event SET actor = 'x' WHERE seq = 1"))
    broken = command(place, "--text")
    assert broken.exit_code == 1
    assert "Event 1 (CREATE" in broken.output
    assert "They hold together." not in broken.output
    wrong = command(place, "--head", "7")
    assert wrong.exit_code != 0
    assert "NUMBER:HASH" in wrong.output


def command(place: Place, *words: str) -> Any:
    return CliRunner().invoke(main, ["audit", "verify", "--data-dir", str(place.folder), *words])


# The arithmetic


def test_each_hash_of_the_audit_chain_depends_on_all_earlier_events():
    def ends(events: list[tuple[str]]) -> Any:
        return list(chain_rows(Head(0, FIRST_HASH), events))[-1][-1]

    assert ends([("a",), ("b",)]) == ends([("a",), ("b",)])
    assert ends([("a",), ("b",)]) != ends([("b",), ("a",)])
    assert ends([("ab",)]) != ends([("a",), ("b",)])
    assert hash_of(FIRST_HASH, ("a", "b")) != hash_of(FIRST_HASH, ("ab", "")), "where one ends is part of it"
