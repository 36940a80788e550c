"""Header blocks: what an independent codec encodes is decoded as by that codec, and the other way round."""

from __future__ import annotations

import hpack as reference
import pytest
from hpack.huffman_constants import REQUEST_CODES, REQUEST_CODES_LENGTH
from hpack.table import HeaderTable
from hypothesis import given
from hypothesis import strategies as st

from windlass.routers.builtin import hpack
from windlass.routers.builtin.hpack import BlockTooLarge, Field, HeaderDecoder, InvalidBlock

NAMES = st.sampled_from([b":method", b":path", b"cookie", b"x-a", b"accept", b"set-cookie"]) | st.binary(
    max_size=20
)
VALUES = st.sampled_from([b"GET", b"same", b"x" * 300]) | st.binary(max_size=200)
FIELDS = st.lists(st.tuples(NAMES, VALUES), max_size=6)
SIZES = st.sampled_from([0, 50, 200, 4096, None])
BLOCKS = st.lists(st.tuples(FIELDS, SIZES, st.booleans()), min_size=1, max_size=4)


def encoded(blocks: list[tuple[list[Field], int | None, bool]]) -> list[bytes]:
    encoder, made = reference.Encoder(), []
    for fields, size, is_packed in blocks:
        if size is not None:
            encoder.header_table_size = size
        made.append(encoder.encode(fields, huffman=is_packed))
    return made


def decoded_by_reference(decoder: reference.Decoder, block: bytes) -> list[Field] | None:
    try:
        return [(bytes(name), bytes(value)) for name, value in decoder.decode(block, raw=True)]
    except reference.HPACKError:
        return None


def decoded(decoder: HeaderDecoder, block: bytes) -> list[Field] | None:
    try:
        return decoder.decode(block)
    except InvalidBlock:
        return None


@given(BLOCKS)
def test_blocks_are_decoded_to_the_fields_that_were_encoded(
    blocks: list[tuple[list[Field], int | None, bool]],
) -> None:
    decoder = HeaderDecoder(10**9)
    assert [decoder.decode(block) for block in encoded(blocks)] == [fields for fields, _, _ in blocks]


@given(
    BLOCKS,
    st.lists(st.tuples(st.integers(0, 3), st.integers(0), st.integers(0, 255)), max_size=3),
    st.integers(0),
)
def test_broken_blocks_are_refused_as_by_another_decoder(
    blocks: list[tuple[list[Field], int | None, bool]], changes: list[tuple[int, int, int]], end: int
) -> None:
    made = [bytearray(block) for block in encoded(blocks)]
    for number, at, byte in changes:
        block = made[number % len(made)]
        if block:
            block[at % len(block)] = byte
    if made[0] and end % 3 == 0:
        del made[0][end % len(made[0]) :]
    ours, theirs = HeaderDecoder(10**9), reference.Decoder(10**9)
    for changed in made:
        found = decoded(ours, bytes(changed))
        assert found == decoded_by_reference(theirs, bytes(changed))
        if found is None:
            break  # neither table is known any more


@given(st.binary(max_size=60))
def test_no_bytes_break_the_decoder(block: bytes) -> None:
    assert decoded(HeaderDecoder(10**9), block) == decoded_by_reference(reference.Decoder(10**9), block)


@given(FIELDS, st.integers(100, 599))
def test_answers_are_decoded_by_another_decoder(fields: list[Field], status: int) -> None:
    named = [(name.lower(), value) for name, value in fields]
    block = hpack.status_field(status) + b"".join(hpack.encode_field(*field) for field in named)
    assert decoded_by_reference(reference.Decoder(10**9), block) == [(b":status", b"%d" % status), *named]


def test_the_tables_are_those_of_the_standard() -> None:
    assert HeaderTable.STATIC_TABLE == hpack._STATIC
    codes = zip(REQUEST_CODES_LENGTH[:256], REQUEST_CODES, strict=False)
    assert hpack._huffman_codes() == {1 << bits | code: symbol for symbol, (bits, code) in enumerate(codes)}


def test_large_fields_are_refused_before_all_are_decoded() -> None:
    entry = b"\x40\x01a\x7f\xa1\x1e" + b"x" * 4000
    with pytest.raises(BlockTooLarge):
        HeaderDecoder(64 * 1024).decode(entry + b"\xbe" * 1_000_000)
    assert len(HeaderDecoder(10**9).decode(entry + b"\xbe" * 100)) == 101, "the control"


def test_secrets_are_marked_as_never_indexed() -> None:
    assert hpack.encode_field(b"set-cookie", b"a=b")[0] & 0xF0 == 0x10
    assert hpack.encode_field(b"etag", b"a")[0] & 0xF0 == 0
