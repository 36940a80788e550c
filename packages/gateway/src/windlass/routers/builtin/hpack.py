"""Header blocks of HTTP/2 (HPACK, RFC 7541): decodes those of clients, and encodes those of answers.

Blocks of clients are decoded with the dynamic table that the protocol demands. Answers use only the static
table, as those of nginx do: so a client cannot make this side keep a table for it.
"""

from __future__ import annotations

from collections import deque
from functools import cache, lru_cache
from itertools import chain, pairwise, repeat
from typing import Final

Field = tuple[bytes, bytes]
"""The name and the value of a field."""

TABLE_BYTES: Final = 4096
"""Size of the dynamic table, which is the default of the protocol."""
ENTRY_BYTES: Final = 32
"""Each field counts as this many bytes more than its name and its value (RFC 7541, 4.1)."""
_MAX_INTEGER_BYTES: Final = 4
"""Maximum number of bytes of an integer after its first one."""
_MAX_CACHED_NAME_BYTES, _MAX_CACHED_VALUE_BYTES = 64, 64
"""Sizes of fields whose form is remembered. Clients and instances choose them: 1,024 of 64 KiB would stay."""

_STATIC_TEXT: Final = (
    ":authority|:method=GET|:method=POST|:path=/|:path=/index.html|:scheme=http|:scheme=https|:status=200|"
    ":status=204|:status=206|:status=304|:status=400|:status=404|:status=500|accept-charset|"
    "accept-encoding=gzip, deflate|accept-language|accept-ranges|accept|access-control-allow-origin|age|"
    "allow|authorization|cache-control|content-disposition|content-encoding|content-language|"
    "content-length|content-location|content-range|content-type|cookie|date|etag|expect|expires|from|host|"
    "if-match|if-modified-since|if-none-match|if-range|if-unmodified-since|last-modified|link|location|"
    "max-forwards|proxy-authenticate|proxy-authorization|range|referer|refresh|retry-after|server|"
    "set-cookie|strict-transport-security|transfer-encoding|user-agent|vary|via|www-authenticate"
)
_STATIC: Final[tuple[Field, ...]] = tuple(
    (name.encode(), value.encode())
    for name, _, value in (entry.partition("=") for entry in _STATIC_TEXT.split("|"))
)
"""The static table, whose first entry has the index 1 (RFC 7541, appendix A)."""
_STATIC_SIZE: Final = len(_STATIC)

_SYMBOLS_BY_LENGTH: Final[dict[int, bytes]] = {
    5: b"012aceiost",
    6: b" %-./3456789=A_bdfghlmnpru",
    7: b":BCDEFGHIJKLMNOPQRSTUVWYjkqvwxyz",
    8: b"&*,;XZ",
    10: b'!"()?',
    11: b"'+|",
    12: b"#>",
    13: b"\0$@[]~",
    14: b"^}",
    15: b"<`{",
    19: bytes.fromhex("5cc3d0"),
    20: bytes.fromhex("808283a2b8c2e0e2"),
    21: bytes.fromhex("99a1a7acb0b1b3d1d8d9e3e5e6"),
    22: bytes.fromhex("8184858688929a9ca0a3a4a9aaadb2b5b9babbbdbec4c6e4e8e9"),
    23: bytes.fromhex("0187898a8b8c8d8f93959697989b9d9ea5a6a8aeafb4b6b7bcbfc5e7ef"),
    24: bytes.fromhex("098e9091949fabced7e1eced"),
    25: bytes.fromhex("c7cfeaeb"),
    26: bytes.fromhex("c0c1c8c9cacdd2d5dadbeef0f2f3ff"),
    27: bytes.fromhex("cbccd3d4d6dddedff1f4f5f6f7f8fafbfcfdfe"),
    28: bytes.fromhex("020304050607080b0c0e0f1011121314151718191a1b1c1d1e1f7fdcf9"),
    30: bytes.fromhex("0a0d16"),
}
"""The bytes by the length of their Huffman code, in the order of the codes (RFC 7541, appendix B). The code
is canonical, so the lengths define it. The last code, of 30 ones, is that of the end and is never sent."""


class InvalidBlock(Exception):
    """Raised if a header block cannot be decoded. The connection has to end, since its table is unknown."""


class BlockTooLarge(Exception):
    """Raised if the fields of a block have too many bytes."""


class HeaderDecoder:
    """Decodes the header blocks of one client."""

    __slots__ = ("_entries", "_limit", "_most", "_size")

    def __init__(self, limit: int) -> None:
        """`limit`: the maximum size of the fields of a block."""
        self._limit = limit
        self._entries: deque[Field] = deque()
        """The dynamic table, the newest entry first."""
        self._size = 0
        self._most = TABLE_BYTES

    def decode(self, block: bytes) -> list[Field]:
        """Returns the fields of a block. Raises InvalidBlock or BlockTooLarge."""
        fields: list[Field] = []
        at, left, end = 0, self._limit, len(block)
        try:
            while at < end:
                first = block[at]
                if first & 0x80:
                    index, at = (first & 0x7F, at + 1) if first != 0xFF else _integer(block, at, 0x7F)
                    field = self._field(index)
                elif first & 0xE0 == 0x20:
                    if fields:
                        raise InvalidBlock("the table is resized within a block")
                    at = self._resize(block, at)
                    continue
                else:
                    field, at = self._literal(block, at)
                    if first & 0x40:
                        self._add(field)
                left -= len(field[0]) + len(field[1]) + ENTRY_BYTES
                if left < 0:
                    raise BlockTooLarge(f"the fields have more than {self._limit} bytes")
                fields.append(field)
        except IndexError:
            raise InvalidBlock("the block is incomplete") from None
        return fields

    def _field(self, index: int) -> Field:
        if 0 < index <= _STATIC_SIZE:
            return _STATIC[index - 1]
        if not 0 < index <= _STATIC_SIZE + len(self._entries):
            raise InvalidBlock(f"there is no field {index}")
        return self._entries[index - _STATIC_SIZE - 1]

    def _literal(self, block: bytes, at: int) -> tuple[Field, int]:
        mask = 0x3F if block[at] & 0x40 else 0x0F
        index, at = _integer(block, at, mask)
        if index:
            name = self._field(index)[0]
        else:
            name, at = _text(block, at)
        value, at = _text(block, at)
        return (name, value), at

    def _add(self, field: Field) -> None:
        size = len(field[0]) + len(field[1]) + ENTRY_BYTES
        self._evict(self._most - size)
        if size <= self._most:
            self._entries.appendleft(field)
            self._size += size

    def _evict(self, most: int) -> None:
        """Removes the oldest entries until the table has at most this size."""
        while self._entries and self._size > most:
            name, value = self._entries.pop()
            self._size -= len(name) + len(value) + ENTRY_BYTES

    def _resize(self, block: bytes, at: int) -> int:
        size, at = _integer(block, at, 0x1F)
        if size > TABLE_BYTES:
            raise InvalidBlock("the table is larger than this side permits")
        self._most = size
        self._evict(size)
        return at


def _integer(block: bytes, at: int, mask: int) -> tuple[int, int]:
    """Returns an integer (RFC 7541, 5.1), and the position after it."""
    value = block[at] & mask
    at += 1
    if value < mask:
        return value, at
    for number in range(_MAX_INTEGER_BYTES):
        byte = block[at]
        at += 1
        value += (byte & 0x7F) << 7 * number
        if not byte & 0x80:
            return value, at
    raise InvalidBlock("an integer is too large")


def _text(block: bytes, at: int) -> tuple[bytes, int]:
    is_packed = block[at] & 0x80
    size, at = _integer(block, at, 0x7F)
    end = at + size
    if end > len(block):
        raise InvalidBlock("the block is incomplete")
    text = block[at:end]
    return (unpack_text(text) if is_packed else text), end


# Huffman codes. A state is the beginning of a code, as the bits after a leading 1.

_ROOT: Final = 1
_PADDING: Final = frozenset((1 << bits + 1) - 1 for bits in range(8))
"""The states in which a text may end: the rest of its last byte consists of ones."""
_END_BITS: Final = 30
_END: Final = (1 << _END_BITS + 1) - 1
"""The code of the end."""
_steps: Final[dict[int, tuple[int, bytes]]] = {}
"""The next state and the decoded bytes, by a state and the next byte. Filled on demand: texts use few."""


def unpack_text(data: bytes) -> bytes:
    """Decodes a text in the Huffman code. Raises InvalidBlock."""
    state, parts = _ROOT, []
    for byte in data:
        key = state << 8 | byte
        step = _steps.get(key)
        if step is None:
            step = _steps[key] = _step(state, byte)
        state, text = step
        parts.append(text)
    if state not in _PADDING:
        raise InvalidBlock("a text does not end with a complete code")
    return b"".join(parts)


def _step(state: int, byte: int) -> tuple[int, bytes]:
    codes, text = _huffman_codes(), bytearray()
    for bit in range(7, -1, -1):
        state = state << 1 | byte >> bit & 1
        if (symbol := codes.get(state)) is not None:
            text.append(symbol)
            state = _ROOT
        elif state == _END:
            raise InvalidBlock("a text has the code of the end")
    return state, bytes(text)


@cache
def _huffman_codes() -> dict[int, int]:
    """Returns the bytes by their codes, each with a leading 1."""
    lengths = list(chain.from_iterable(repeat(bits, len(text)) for bits, text in _SYMBOLS_BY_LENGTH.items()))
    codes = [0]
    for before, bits in pairwise(lengths):
        codes.append(codes[-1] + 1 << bits - before)
    symbols = chain.from_iterable(_SYMBOLS_BY_LENGTH.values())
    return {1 << bits | code: symbol for bits, code, symbol in zip(lengths, codes, symbols, strict=True)}


# Answers

_STATUS_BYTES: Final = {
    int(value): bytes((0x80 | index,)) for index, (name, value) in enumerate(_STATIC, 1) if name == b":status"
}
_NEVER_INDEXED: Final = frozenset({b"set-cookie"})
"""Fields that no proxy may keep in a table: their values are secrets."""


def status_field(status: int) -> bytes:
    return _STATUS_BYTES.get(status) or b"\x08\x03%d" % status


def encode_field(name: bytes, value: bytes) -> bytes:
    """Encodes a field without adding it to a table. `name` is in lower case."""
    if len(name) > _MAX_CACHED_NAME_BYTES:  # no name of the static table is so long
        return b"\0" + _encode_length(len(name)) + name + _encode_length(len(value)) + value
    if len(value) <= _MAX_CACHED_VALUE_BYTES:
        return _encode_small(name, value)
    return _encode_name(name) + _encode_length(len(value)) + value


@lru_cache(1024)
def _encode_small(name: bytes, value: bytes) -> bytes:
    return _encode_name(name) + _encode_length(len(value)) + value


@lru_cache(256)
def _encode_name(name: bytes) -> bytes:
    mark = 0x10 if name in _NEVER_INDEXED else 0
    index = next((index for index, field in enumerate(_STATIC, 1) if field[0] == name), 0)
    if index:
        return bytes((mark | index,)) if index < 0x0F else bytes((mark | 0x0F, index - 0x0F))
    return bytes((mark,)) + _encode_length(len(name)) + name


def _encode_length(size: int) -> bytes:
    """Encodes the length of a text that is not in the Huffman code."""
    if size < 0x7F:
        return bytes((size,))
    size -= 0x7F
    encoded = bytearray((0x7F,))
    while size >= 0x80:
        encoded.append(size & 0x7F | 0x80)
        size >>= 7
    encoded.append(size)
    return bytes(encoded)
