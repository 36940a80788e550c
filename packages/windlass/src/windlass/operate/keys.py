"""Lists the sealing keys, and rotates the current key.

The command adds a key to the file `key`. A running server then seals all values with the new key; without a
server, the command does so itself. The file and the database record the progress, so the command may be
killed at any moment.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from msgspec import Struct

from windlass.base.clock import SystemClock, stamp
from windlass.base.encryption import Encryption, id_of, new_key
from windlass.base.filelock import try_hold
from windlass.base.private import owner_of
from windlass.config import Settings
from windlass.control.background.key_rotation import KeyRotation
from windlass.control.background.resealing import reseal
from windlass.control.context.context import no_point
from windlass.control.records.sealing_keys import KeyState, read_keys, unlock, values_by_key
from windlass.engines.findings import Finding, ok, warn
from windlass.install.composition import open_store
from windlass.install.database import reading_snapshot
from windlass.install.key import (
    add_key,
    check_keys,
    drop_keys,
    given_keys,
    key_file,
    load_encryption,
    load_keys,
)
from windlass.install.ownership import check
from windlass.store import Reads, Store
from windlass.store.archive import Snapshot
from windlass.store.migrate import find_missing, migrations
from windlass.store.sqlite import InUse
from windlass.terminal.command_errors import CommandRefused

LOCK_FILE: Final = "key.lock"
CHECK_INTERVAL: Final = 0.3
Point = Callable[[str], Awaitable[None]]
Tell = Callable[[str], None]


class ListedKey(Struct, frozen=True, kw_only=True):
    id: str
    is_present: bool
    """Whether this key seals new values."""
    is_here: bool
    """Whether the key is in the file `key` or in WINDLASS_KEY."""
    since: str | None
    """The time since which the key seals values; null for the first key."""
    retired_at: str | None
    """The time since which the key no longer seals values; null while it does."""
    values: int
    """Number of values that are currently sealed with the key."""


class KeySurvey(Struct, frozen=True):
    """The state of an installation's keys at one moment."""

    at: int
    """The time of the database's clock, which servers follow."""
    state: KeyState
    values: Mapping[str, int]
    """Number of sealed values, by key id."""
    lacking: tuple[str, ...]
    """Names of running servers that do not have the new key yet."""

    @property
    def left(self) -> int:
        """Number of values that are not sealed with the current key."""
        return sum(count for id, count in self.values.items() if id != self.state.current)


async def describe_keys(settings: Settings) -> list[ListedKey]:
    keys = load_keys(settings)
    survey, here = await _survey_keys(settings), {id_of(key) for key in keys}
    return [
        ListedKey(
            id=record.id,
            is_present=record.id == survey.state.current,
            is_here=record.id in here,
            since=stamp(record.since) if record.since else None,
            retired_at=stamp(record.retired) if record.retired else None,
            values=survey.values.get(record.id, 0),
        )
        for record in survey.state.records
    ]


async def rotate(
    settings: Settings, report_progress: Tell, *, keep_old_key: bool = False, point: Point = no_point
) -> None:
    """Rotates the key, or continues an interrupted rotation. `keep_old_key`: leaves former keys in the
    file."""
    await check(settings)
    _check_owner(settings)
    with _lock_rotation(settings):
        survey = await _survey_keys(settings)
        encryption = load_encryption(settings)
        check_keys(encryption, survey.state)
        if _has_begun(survey.state, encryption):
            report_progress(
                f"A replacement by the key {encryption.fingerprint} was interrupted, and continues."
            )
        elif _retired_here(settings, survey.state) and not keep_old_key:
            _drop(settings, survey.state, report_progress)
            report_progress(
                "The replacement that was interrupted is complete. Repeat the command for another one."
            )
            return
        else:
            encryption = _begin(settings, survey.state, report_progress)
        await point("key added")
        await _complete(settings, encryption.fingerprint, survey.at, report_progress, point)
        await point("completed")
        if not keep_old_key:
            _drop(settings, (await _survey_keys(settings)).state, report_progress)


async def examine_keys(reads: Reads, state: KeyState, encryption: Encryption) -> Finding:
    """Checks that all values are sealed with the first given key."""
    wanted, repeat = encryption.fingerprint, "`windlass key rotate` continues with that"
    if wanted in state.retired:
        return warn("Secrets", f"the first key here, {wanted}, was replaced", f"put {state.current} first")
    if state.is_settled and wanted == state.current:
        return ok("Secrets", "were sealed with this key")
    values = await values_by_key(reads)
    left = sum(count for id, count in values.items() if id != wanted)
    problem = f"values {left} are not sealed with the new key {wanted} yet"
    if state.unreadable:
        problem += f"; these cannot be opened: {', '.join(state.unreadable)}"
    return warn("Secrets", problem, repeat)


def _check_owner(settings: Settings) -> None:
    """Raises CommandRefused unless this user owns the key file. Servers could not read a file of another
    user."""
    file = key_file(settings)
    if not settings.key and file.exists() and file.stat().st_uid != os.geteuid():
        owner = owner_of(file)
        raise CommandRefused(
            f"run this as the owner of {file}, {owner}: `sudo -u {owner} windlass key rotate …`, so "
            "that the server can read the new key"
        )


def _has_begun(state: KeyState, encryption: Encryption) -> bool:
    """Returns whether a rotation to the first given key has begun and is not complete."""
    wanted = encryption.fingerprint
    if wanted in state.retired or (wanted != state.current and not state.is_settled):
        raise CommandRefused(
            f"put the key {state.current} before the others: values are sealed with it, and the first key "
            f"that is given, {wanted}, was replaced before"
        )
    return wanted != state.current or not state.is_settled


def _begin(settings: Settings, state: KeyState, report_progress: Tell) -> Encryption:
    if settings.key:
        raise CommandRefused(
            "set WINDLASS_KEY of all servers to a new key and the present one, with a comma between them; "
            "restart the servers, and repeat. `windlass key new` prints a new key. The present one is "
            f"{state.current}"
        )
    id = add_key(settings)
    report_progress(
        f"The new key {id} is in {key_file(settings)}: copy this file to a safe place. Backups that were "
        f"made until now need the former key, {state.current}."
    )
    return load_encryption(settings)


async def _complete(
    settings: Settings, key: str, start_time: int, report_progress: Tell, point: Point
) -> None:
    """Waits until all values are sealed with the key `key`. Seals them itself while no server runs."""
    shown, began = "", time.monotonic()
    while not _is_done(survey := await _survey_keys(settings, key), key):
        if survey.state.unreadable_at >= start_time:
            raise CommandRefused(_unreadable(survey.state))
        if (text := _progress(survey, key)) != shown:
            report_progress(shown := text)
        if not await _work_alone(settings, point):
            # Counting reads all sealed values. The pause is as long as the last count took.
            await asyncio.sleep(max(CHECK_INTERVAL, time.monotonic() - began))
            began = time.monotonic()
    report_progress(f"All {survey.values.get(key, 0)} values are sealed with the key {key}.")


def _is_done(survey: KeySurvey, key: str) -> bool:
    return survey.state.current == key and survey.state.is_settled


def _progress(survey: KeySurvey, key: str) -> str:
    if survey.lacking:
        return (
            "Copy the file `key` into the data directories of servers that do not have the new key yet, or "
            f"add it to their WINDLASS_KEY and restart them: {'; '.join(survey.lacking)}."
        )
    return f"Values to seal with the key {key}: {survey.left if survey.state.current == key else 'all'}."


def _unreadable(state: KeyState) -> str:
    return (
        "set these values again, or restore them from a backup, and repeat the command: they cannot be "
        f"opened and stay as they are, and so do the former keys: {', '.join(state.unreadable)}"
    )


async def _work_alone(settings: Settings, point: Point) -> bool:
    """Seals all values with the new key. Returns False if a server is running, which does this itself."""
    try:
        store = await open_store(settings, clock := SystemClock(), attempts=1)
    except InUse:
        return False
    try:
        if await store.reads.key_holders.live(clock.now()):
            return False
        await _work_on(store, settings, point)
    finally:
        await store.close()
    return True


async def _work_on(store: Store, settings: Settings, point: Point) -> None:
    encryption, state = load_encryption(settings), await read_keys(store.reads)
    assert state is not None, "looked at before"
    check_keys(encryption, state)
    await unlock(encryption, store.reads, state)
    rotation = KeyRotation(store, encryption, given_keys(settings), is_shared=False, point=point)
    await rotation.adopt_keys()
    await reseal(store, encryption, point)


async def _survey_keys(settings: Settings, key: str = "") -> KeySurvey:
    async with reading_snapshot(settings) as line:
        moment = Snapshot(line)
        applied = await moment.applied()
        if not applied or find_missing(migrations(), applied):
            raise CommandRefused("start the server once with this version: it brings the database up to date")
        reads = moment.reads
        state = await read_keys(reads)
        if state is None:
            raise CommandRefused("there are no secrets yet: this installation was never started")
        at = await moment.now()
        live = await reads.key_holders.live(at) if key else []
        lacking = tuple(holder.name for holder in live if not holder.has(key))
        return KeySurvey(at, state, await values_by_key(reads), lacking)


def _retired_here(settings: Settings, state: KeyState) -> list[str]:
    return [id for key in load_keys(settings) if (id := id_of(key)) in state.retired]


def _drop(settings: Settings, state: KeyState, report_progress: Tell) -> None:
    if settings.key:
        if former := _retired_here(settings, state):
            report_progress(f"Remove the former keys from WINDLASS_KEY: {', '.join(former)}.")
    elif former := drop_keys(settings, state.retired):
        report_progress(f"The former keys are not in {key_file(settings)} any more: {', '.join(former)}.")


@contextmanager
def _lock_rotation(settings: Settings) -> Iterator[None]:
    """Locks the data directory against a second `key rotate`. Two commands would each add a key to the file,
    and one key would be lost."""
    lock = try_hold(Path(settings.data_dir) / LOCK_FILE)
    if lock is None:
        raise CommandRefused("wait for the other `windlass key rotate`, which runs on this data directory")
    try:
        yield
    finally:
        os.close(lock)


def make_key() -> str:
    """Returns a new key in the format of WINDLASS_KEY."""
    return new_key().hex()
