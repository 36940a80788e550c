"""The small parts that everything at rest relies on: encryption, tokens, ids, time."""

from __future__ import annotations

import os
import re
import string
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.marks import examples
from windlass.base import ids, tokens
from windlass.base.clock import DAY, HOUR, MINUTE, SECOND, SystemClock, instant, stamp
from windlass.base.encryption import HEAD_BYTES, KEY_BYTES, CannotDecrypt, Encryption, new_key
from windlass.control.context.log_store import Logs

KEYS = st.binary(min_size=KEY_BYTES, max_size=KEY_BYTES)
OWNERS = st.lists(st.text(), min_size=1, max_size=4)
ENCRYPTION = Encryption(bytes(range(KEY_BYTES)))


# Seals


@given(KEYS, st.binary(max_size=2_000), OWNERS)
def test_a_sealed_value_can_be_decrypted_for_its_owner(key: bytes, value: bytes, owner: list[str]):
    assert Encryption(key).decrypt(Encryption(key).encrypt(value, *owner), *owner) == value


def test_a_value_without_the_id_of_its_key_is_decrypted_with_the_key_that_fits():
    former, present = new_key(), new_key()
    sealed = Encryption(former).encrypt(b"value", "a")
    bare = b"\x01" + sealed[HEAD_BYTES:]
    assert Encryption(present, former).decrypt(bare, "a") == b"value"
    with pytest.raises(CannotDecrypt):
        Encryption(present).decrypt(bare, "a")
    with pytest.raises(CannotDecrypt):
        Encryption(present, former).decrypt(bare, "b")


@given(st.binary(min_size=8, max_size=200))
def test_a_sealed_value_shows_nothing_of_the_value_and_never_looks_the_same(value: bytes):
    one, other = ENCRYPTION.encrypt(value, "a"), ENCRYPTION.encrypt(value, "a")
    assert value not in one
    assert one[1:] != other[1:]
    assert len(one) == len(other)


@given(st.binary(max_size=50), st.integers(min_value=0), st.integers(0, 7))
def test_a_ciphertext_with_one_flipped_bit_does_not_open(value: bytes, place: int, bit: int):
    sealed = bytearray(ENCRYPTION.encrypt(value, "a"))
    sealed[place % len(sealed)] ^= 1 << bit
    with pytest.raises(CannotDecrypt):
        ENCRYPTION.decrypt(bytes(sealed), "a")


def test_flipping_any_bit_of_a_ciphertext_prevents_decryption():
    sealed = ENCRYPTION.encrypt(b"value", "a")
    for place in range(8 * len(sealed)):
        flipped = bytearray(sealed)
        flipped[place // 8] ^= 1 << place % 8
        with pytest.raises(CannotDecrypt):
            ENCRYPTION.decrypt(bytes(flipped), "a")
    assert ENCRYPTION.decrypt(sealed, "a") == b"value"


@given(st.binary(max_size=50), st.data())
def test_a_truncated_ciphertext_cannot_be_decrypted(value: bytes, data: st.DataObject):
    sealed = ENCRYPTION.encrypt(value, "a")
    start = data.draw(st.integers(0, len(sealed)))
    end = data.draw(st.integers(start, len(sealed) - (start == 0)))
    with pytest.raises(CannotDecrypt):
        ENCRYPTION.decrypt(sealed[start:end], "a")


@given(st.binary(max_size=300))
def test_a_value_that_was_never_sealed_does_not_open(value: bytes):
    with pytest.raises(CannotDecrypt):
        ENCRYPTION.decrypt(value, "a")


@given(OWNERS, OWNERS)
@example(["a|b", "c"], ["a", "b|c"])
@example(["a\\", "b"], ["a\\|b"])
@example(["a", ""], ["a"])
@example(["a|"], ["a", ""])
def test_a_ciphertext_opens_for_its_owner_only(owner: list[str], other: list[str]):
    sealed = ENCRYPTION.encrypt(b"value", *owner)
    if owner == other:
        assert ENCRYPTION.decrypt(sealed, *other) == b"value"
        return
    with pytest.raises(CannotDecrypt):
        ENCRYPTION.decrypt(sealed, *other)


@given(KEYS)
def test_another_key_does_not_open_a_ciphertext(key: bytes):
    with pytest.raises(CannotDecrypt):
        Encryption(key).decrypt(ENCRYPTION.encrypt(b"value", "a"), "a")


@pytest.mark.parametrize("size", [0, 16, 31, 33, 64])
def test_a_key_of_another_length_is_refused(size: int):
    with pytest.raises(ValueError, match="32"):
        Encryption(bytes(size))


def test_a_key_fingerprint_identifies_the_key_and_is_not_part_of_it():
    key = new_key()
    assert Encryption(key).fingerprint == Encryption(key).fingerprint != Encryption(new_key()).fingerprint
    assert bytes.fromhex(Encryption(key).fingerprint) not in key


@given(st.binary(), st.binary())
def test_a_keyed_mark_differs_for_different_values_and_keys(one: bytes, other: bytes):
    assert (ENCRYPTION.mark(one) == ENCRYPTION.mark(other)) is (one == other)
    assert ENCRYPTION.mark(one) != Encryption(bytes(KEY_BYTES)).mark(one)


# Tokens

ALPHABET = string.digits + string.ascii_letters


MADE = [tokens.new_token() for _ in range(5)]


@st.composite
def changed_tokens(draw: st.DrawFn) -> str:
    token = draw(st.sampled_from(MADE))
    place = draw(st.integers(0, tokens.TOKEN_LENGTH - 1))
    other = draw(st.one_of(st.sampled_from(ALPHABET), st.characters()).filter(lambda c: c != token[place]))
    return token[:place] + other + token[place + 1 :]


def test_new_tokens_are_well_formed_and_unique():
    made = [tokens.new_token() for _ in range(200)]
    assert all(tokens.well_formed(token) for token in made)
    assert all(re.fullmatch(r"wdl_[0-9A-Za-z]{49}", token) for token in made)
    assert len(set(made)) == len(made)


def test_a_token_contains_at_least_210_random_bits():
    made = [tokens.new_token()[len(tokens.WDL_PREFIX) : -6] for _ in range(2_000)]
    assert {len(body) for body in made} == {43}
    assert all({body[place] for body in made} == set(ALPHABET) for place in range(43))


@examples(500)
@given(changed_tokens())
def test_a_changed_character_makes_a_token_malformed(token: str):
    assert not tokens.well_formed(token)


@given(st.text())
@example(tokens.WDL_PREFIX)
@example("wdl_" + "0" * 49)
@example("wdl_" + "é" * 49)
def test_malformed_texts_are_not_accepted_as_tokens(text: str):
    assert not tokens.well_formed(text)
    assert not tokens.well_formed(tokens.new_token() + text[:1].ljust(1))


def test_two_characters_that_changed_places_are_noticed():
    token = tokens.new_token()
    for place in range(len(tokens.WDL_PREFIX), tokens.TOKEN_LENGTH - 1):
        swapped = token[:place] + token[place + 1] + token[place] + token[place + 2 :]
        assert tokens.well_formed(swapped) is (swapped == token)


def test_the_stored_digest_of_a_token_differs_from_the_token():
    token = tokens.new_token()
    assert re.fullmatch(r"[0-9a-f]{64}", tokens.digest(token))
    assert tokens.digest(token) == tokens.digest(token) != tokens.digest(tokens.new_token())


# Ids


def test_an_id_is_a_lower_case_uuid_of_version_4():
    made = [ids.new_id() for _ in range(1_000)]
    assert all(re.match(ids.PATTERN, id) and ids.is_id(id) for id in made)
    assert {id[14] for id in made} == {"4"}
    assert {id[19] for id in made} == set("89ab")
    assert len(set(made)) == len(made)
    assert all(re.fullmatch(r"[0-9a-f]{16}", ids.new_tag()) for _ in range(100))


def test_threads_and_forks_never_make_the_same_id():
    own = [ids.new_id()]  # so that there is a reserve, which a fork has too
    with ThreadPoolExecutor(8) as threads:
        made = [id for some in threads.map(_many, range(8)) for id in some]
    forked = _made_by_a_fork()
    assert len(forked) == 10
    everything = [*own, *made, *forked, *_many(0)]
    assert len(set(everything)) == len(everything)


def _many(_: int) -> list[str]:
    return [ids.new_id() for _ in range(5_000)]


def _made_by_a_fork() -> list[str]:
    """The first ids that a fork of this process makes."""
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        os.write(writing, "\n".join(ids.new_id() for _ in range(10)).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as said:
        made = said.read().splitlines()
    os.waitpid(child, 0)
    return made


@given(st.uuids(), st.text(max_size=1))
def test_only_a_canonical_uuid_is_a_valid_id(uuid, more: str):
    assert ids.is_id(str(uuid))
    assert ids.is_id(str(uuid) + more) is (more == "")
    assert ids.is_id(more + str(uuid)) is (more == "")
    assert ids.is_id(str(uuid).upper()) is (str(uuid).upper() == str(uuid))
    assert not ids.is_id(str(uuid) + "\n")


# Time


@given(st.integers(0, 253_402_300_799_999))
@example(0)
@example(999)
@example(951_782_400_000)
@example(253_402_300_799_999)
def test_a_timestamp_has_milliseconds_and_can_be_parsed(ms: int):
    text = stamp(ms)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", text)
    assert instant(datetime.fromisoformat(text)) == ms


@given(st.integers(0, 253_402_300_799_998), st.integers(0, 253_402_300_799_999))
def test_stamps_are_in_order_as_their_times_are(one: int, other: int):
    assert (stamp(one) < stamp(other)) is (one < other)


@given(st.datetimes(min_value=datetime(1970, 1, 1), timezones=st.timezones()))  # noqa: DTZ001
def test_a_point_in_time_does_not_depend_on_its_time_zone_notation(moment: datetime):
    try:
        elsewhere = moment.astimezone(UTC)
    except OverflowError:
        return
    assert instant(moment) == instant(elsewhere)
    assert abs(instant(moment) - moment.timestamp() * 1000) < 1.1


def test_the_system_clock_is_monotonic():
    clock = SystemClock()
    seen = [clock.now() for _ in range(1_000)]
    assert seen == sorted(seen)


class Machine:
    """The clocks of a machine: the one that people set, and the time since its boot."""

    def __init__(self, monkeypatch) -> None:
        self.shown, self.up = 1_790_000_000_000, 1_000
        monkeypatch.setattr("windlass.base.clock.time.time_ns", lambda: self.shown * 1_000_000)
        monkeypatch.setattr("windlass.base.clock.uptime", lambda: self.up)

    def wait(self, ms: int) -> None:
        self.shown, self.up = self.shown + ms, self.up + ms


def test_after_being_set_back_the_clock_runs_slower_until_it_is_right(monkeypatch, caplog):
    machine, clock = Machine(monkeypatch), SystemClock()
    before = clock.now()
    machine.shown -= HOUR
    assert clock.now() == before
    machine.wait(MINUTE)
    assert clock.now() == before + MINUTE * 9 // 10
    assert clock.behind == HOUR - MINUTE // 10
    assert [record.message.partition(":")[0] for record in caplog.records] == [
        "restart the server if the clock is right now"
    ]
    for _ in range(11):
        machine.wait(HOUR)
        clock.now()
    assert (clock.now(), clock.behind) == (machine.shown, 0)
    machine.wait(MINUTE)
    assert clock.now() == machine.shown
    machine.shown -= 100  # as time servers do it: no word about it
    assert clock.now() == machine.shown + 100
    assert len(caplog.records) == 1


def test_after_a_step_ahead_nothing_is_deleted_for_its_age_for_an_hour(monkeypatch, caplog):
    machine, clock = Machine(monkeypatch), SystemClock()
    assert clock.may_expire()
    machine.wait(30 * DAY)  # time that passes is no step
    assert clock.may_expire()
    machine.shown += 365 * DAY
    assert not clock.may_expire()
    machine.wait(HOUR - SECOND)
    assert not clock.may_expire()
    machine.wait(SECOND)
    assert clock.may_expire()
    [record] = caplog.records
    assert record.message.startswith("if the clock is wrong, set it within an hour")


def test_while_a_clock_is_ahead_of_the_corrected_one_nothing_is_deleted_for_its_age(monkeypatch):
    machine, clock = Machine(monkeypatch), SystemClock()
    assert clock.may_expire()
    machine.shown += 365 * DAY
    assert not clock.may_expire()
    machine.shown -= 365 * DAY
    machine.wait(2 * HOUR)
    assert not clock.may_expire()


@pytest.mark.parametrize(("days", "expires"), [(1, True), (365, False)])
def test_a_server_that_starts_long_after_the_last_change_deletes_nothing_for_its_age_for_an_hour(
    monkeypatch, days, expires
):
    machine, clock = Machine(monkeypatch), SystemClock()
    clock.compare_with(machine.shown - days * DAY)
    assert clock.may_expire() is expires
    machine.wait(HOUR)
    assert clock.may_expire()


async def test_log_lines_are_kept_while_the_clock_may_be_wrong(monkeypatch, tmp_path):
    machine, clock = Machine(monkeypatch), SystemClock()
    logs = Logs(tmp_path, 1 << 20, days=14, clock=clock)
    logs.write("service", clock.now(), "a line")

    def has_line() -> bool:
        return any(b"a line" in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())

    await logs.sweep([])
    machine.shown += 365 * DAY
    for _ in range(2):  # the first one closes the file of the newest lines
        await logs.sweep([])
    assert has_line()
    machine.wait(HOUR)
    for _ in range(2):
        await logs.sweep([])
    assert not has_line()
    logs.close()


def test_a_clock_set_back_twice_stays_monotonic(monkeypatch):
    machine, clock = Machine(monkeypatch), SystemClock()
    seen = [clock.now()]
    for step in (-HOUR, 10, -HOUR, 2 * HOUR + 5, -MINUTE):
        machine.shown += step
        machine.wait(MINUTE)
        seen.append(clock.now())
    assert seen == sorted(seen)
