"""Masks the values of secrets in text with `••••`. Pure.

The cost for a text does not depend on the number of secrets, because a filter comes first. For each secret,
one window of bytes is chosen so that every occurrence of the secret contains at least one aligned four-byte
word of a known set (a two-byte word for the shortest secrets). A text without secrets costs one look-up per
four bytes. Only a text that does not pass the filter is searched for secrets: at each position, first for the
first six characters of any secret, then for the longest secret that begins there.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import islice
from typing import Final, Literal
from urllib.parse import quote, unquote, urlsplit

from windlass.core.words.pattern_search import MIN_PATTERN_LENGTH as MIN_PATTERN_LENGTH
from windlass.core.words.pattern_search import PatternSearch as PatternSearch

MASK: Final = "••••"

MIN_LINE_LENGTH: Final = 12
"""Minimum length of a masked line in a multi-line value, such as a key or a settings file."""
MAX_PATTERN_LENGTH: Final = 64
"""Maximum length of a pattern in characters. Longer values are masked in pieces."""
MAX_PATTERNS: Final = 4000
"""Maximum number of patterns per deployment. Larger secret files are masked only by their first lines."""
MAX_LOOKED_AT: Final = 50_000
"""Maximum number of lines and pieces of values that are looked at for patterns, also if they are too short
or all the same."""
MIN_CUT_MESSAGE_BYTES: Final = 16 * 1024 - 8
"""A message of at least this many bytes may be a part of a longer line."""

_BYTES_OF_PATTERN: Final = 600
"""Estimated bytes of a pattern with its words and its place in the search."""

_TRIVIAL_VALUES: Final = frozenset(
    """
    active changeme default desktop develop development disable disabled enable enabled error example guest
    information internal localhost master memory mongodb nobody normal password postgres postgresql private
    production public release sandbox secret server service shared staging standard status string testing
    undefined unknown username verbose warning windlass
    """.split()  # noqa: SIM905 (as a list it would be as long as this file)
)
_NUMBER_PATTERN: Final = re.compile(r"[0-9.,:-]{1,7}|[0-9]{1,7}[a-z]{0,2}", re.ASCII)
_ASSIGNED_PATTERN: Final = re.compile(r"""["']?[\w.-]+["']?\s*[=:]\s*["']?(.+?)["']?[,;]?""")
_MASKS_PATTERN: Final = re.compile(f"(?:{MASK})+")
_PEM_MARKERS: Final = ("-----BEGIN ", "-----END ")


class Mask:
    """Masks the secrets of a deployment."""

    def __init__(self, values: Iterable[str]) -> None:
        self.values = tuple(dict.fromkeys(values))
        self.patterns = _secret_patterns(self.values)
        windows = [_unusual_window(pattern.encode()) for pattern in self.patterns]
        self._words = frozenset(_words_in(windows))
        self._pairs = frozenset(_pairs_in(windows))

    @cached_property
    def estimated_bytes(self) -> int:
        """The memory of the mask, with that of its search."""
        return sum(map(len, self.values)) + _BYTES_OF_PATTERN * len(self.patterns)

    def __bool__(self) -> bool:
        return bool(self.patterns)

    def text(self, text: str) -> str:
        if not self.patterns or not self._may_hold(text):
            return text
        return _without_spans(text, list(self._search.spans(text)), 0, len(text))

    def messages(self, messages: list[str], held_back: str = "") -> tuple[list[str], str]:
        """Masks messages in order. Consecutive messages may be parts of one line that was cut.

        `held_back`: the held-back end of an unfinished line from the previous call. Returns the masked
        messages (the same list if nothing is masked), and the held-back end of an unfinished line for the
        next call.
        """
        if not held_back and not any(map(_is_cut, messages)) and not self._may_hold("\n".join(messages)):
            return messages, ""
        masked: list[str] = []
        for line in _lines(messages):
            shown, held_back = self._mask_line(line, held_back)
            masked += shown
        return masked, held_back

    def _mask_line(self, parts: Sequence[str], held_back: str) -> tuple[list[str], str]:
        """Masks the parts of one line. A secret may span two parts, of which the second arrives later.

        Therefore the end of an unfinished line is always held back. If it were held back only where a secret
        may begin, a program that writes long lines could find out, character by character, how the secret
        begins.
        """
        unfinished = _is_cut(parts[-1])
        if len(parts) == 1 and not held_back and not unfinished:
            return [self.text(parts[0])], ""
        whole = held_back + "".join(parts)
        spans = list(self._search.spans(whole))
        end = self._holding_point(whole, spans) if unfinished else len(whole)
        masked, start, stop = [], 0, len(held_back)
        for part in parts:
            stop += len(part)
            masked.append(_without_spans(whole, spans, start, min(stop, end)))
            start = stop
        return masked, whole[end:]

    def _holding_point(self, text: str, spans: Sequence[tuple[int, int]]) -> int:
        """Returns the position from which the end of an unfinished line is held back. It is never inside a
        secret."""
        end = max(len(text) - self._max_pattern_length + 1, 0)
        return next((last for first, last in spans if first < end < last), end)

    def _may_hold(self, text: str) -> bool:
        raw = text.encode(errors="replace")
        if self._words and not self._words.isdisjoint(_aligned_numbers(raw, "I", 4)):
            return True
        return bool(self._pairs) and not self._pairs.isdisjoint(_aligned_numbers(raw, "H", 2))

    @cached_property
    def _search(self) -> PatternSearch:
        """The search for all secrets. Built on demand, because most services never print a secret."""
        return PatternSearch(self.patterns)

    @cached_property
    def _max_pattern_length(self) -> int:
        return max(map(len, self.patterns), default=1)


def is_trivial(value: str) -> bool:
    """Returns whether a value is too short or too common to be a secret."""
    return (
        len(value) < MIN_PATTERN_LENGTH
        or value.lower() in _TRIVIAL_VALUES
        or _NUMBER_PATTERN.fullmatch(value) is not None
    )


# Patterns


def _secret_patterns(values: Iterable[str]) -> tuple[str, ...]:
    pieces = (piece for value in values for form in _printed_forms(value) for piece in _pieces_of(form))
    patterns: dict[str, None] = {}
    for piece in islice(pieces, MAX_LOOKED_AT):
        if piece:
            patterns[piece] = None
        if len(patterns) == MAX_PATTERNS:
            break
    return tuple(patterns)


def _pieces_of(form: str) -> Iterable[str]:
    return [form] if not form or isinstance(form, _WholePiece) else _split_value(form)


class _WholePiece(str):
    """A pattern that is not split into pieces."""


def _printed_forms(value: str) -> Iterator[str]:
    """Yields the forms in which programs may print a value: plain, quoted or encoded. Empty for a line that
    is too short to be masked."""
    lines = [line.strip() for line in value.splitlines()]
    if len(lines) > 1:
        yield from _forms_of_lines(lines)
        return
    value = value.strip()
    if is_trivial(value):
        return
    yield value
    for written in (
        json.dumps(value)[1:-1],
        json.dumps(value, ensure_ascii=False)[1:-1],
        quote(value, safe=""),
    ):
        if written != value:
            yield written
    yield from _base64_forms(value)
    if (password := _password_in_url(value)) and not is_trivial(password):
        yield from _printed_forms(password)


def _forms_of_lines(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        is_masked = len(line) >= MIN_LINE_LENGTH and not line.startswith(_PEM_MARKERS)
        yield line if is_masked and not is_trivial(line) else ""
        if is_masked and (assigned := _ASSIGNED_PATTERN.fullmatch(line)):
            yield assigned[1] if len(assigned[1]) >= MIN_LINE_LENGTH else ""


def _base64_forms(value: str) -> Iterator[str]:
    """Yields the base64 forms of a value at each of the three offsets, without digits that depend on adjacent
    bytes.

    If the value is at the end of the encoded text, the last digit depends only on the value. This is a
    separate form.
    """
    raw = value.encode(errors="replace")
    for offset in range(3):
        encoded = base64.b64encode(bytes(offset) + raw).rstrip(b"=").decode()
        first = -(-offset * 8 // 6)
        whole = (len(raw) + offset) * 8 // 6
        inner = encoded[first:whole]
        if len(inner) >= MIN_PATTERN_LENGTH + 2:
            for digits, ended in (
                (inner, encoded),
                (inner.translate(_URLSAFE_TRANSLATION), encoded.translate(_URLSAFE_TRANSLATION)),
            ):
                yield digits
                yield _WholePiece([*_split_value(digits)][-1] + ended[whole:])


_URLSAFE_TRANSLATION: Final = str.maketrans("+/", "-_")


def _password_in_url(value: str) -> str:
    """Returns the password in an address such as `postgres://user:password@host/name`; empty if there is
    none."""
    if "://" not in value:
        return ""
    try:
        return unquote(urlsplit(value).password or "")
    except ValueError:
        return ""


def _split_value(value: str) -> Iterator[str]:
    """Splits a long value into pieces of about equal length."""
    number = -(-len(value) // MAX_PATTERN_LENGTH)
    size = -(-len(value) // number)
    for start in range(0, len(value), size):
        piece = value[start : start + size]
        if len(piece) >= MIN_PATTERN_LENGTH:
            yield piece


# The filter


_UNUSUAL: Final = bytes(not 97 <= byte <= 122 for byte in range(256))
"""A table that turns each byte into 1, and lower-case letters into 0."""
_MAX_COMPARED_WINDOWS: Final = 8


def _unusual_window(raw: bytes) -> bytes:
    """Returns the seven most unusual consecutive bytes of a value, or the whole value if it is shorter."""
    if len(raw) <= 7:
        return raw
    unusual = raw.translate(_UNUSUAL)
    counts = [unusual.count(1, start, start + 7) for start in range(len(raw) - 6)]
    most = max(counts)
    windows = [raw[start : start + 7] for start, count in enumerate(counts) if count == most]
    return max(windows[:_MAX_COMPARED_WINDOWS], key=lambda window: len(set(window)))


def _words_in(windows: Iterable[bytes]) -> Iterator[int]:
    """Yields the four-byte words in each window. Any seven bytes contain one aligned word."""
    for window in windows:
        if len(window) >= 7:
            yield from (_window_number(window[start : start + 4]) for start in range(4))


def _pairs_in(windows: Iterable[bytes]) -> Iterator[int]:
    for window in windows:
        if len(window) < 7:
            # Two adjacent pairs would be more selective, but a window of six bytes guarantees only one
            # aligned pair.
            yield from (_window_number(window[start : start + 2]) for start in range(2))


def _window_number(raw: bytes) -> int:
    return int.from_bytes(raw, _BYTE_ORDER)


def _aligned_numbers(raw: bytes, kind: Literal["I", "H"], size: int) -> Iterable[int]:
    return memoryview(raw + bytes(-len(raw) % size)).cast(kind)


_BYTE_ORDER: Final = "little" if memoryview(b"\1\0").cast("H")[0] == 1 else "big"


# Cut lines


def _is_cut(message: str) -> bool:
    return (
        len(message) * 4 >= MIN_CUT_MESSAGE_BYTES
        and len(message.encode(errors="replace")) >= MIN_CUT_MESSAGE_BYTES
    )


def _lines(messages: Sequence[str]) -> Iterator[list[str]]:
    """Groups messages that are parts of the same line."""
    line: list[str] = []
    for message in messages:
        line.append(message)
        if not _is_cut(message):
            yield line
            line = []
    if line:
        yield line


def _without_spans(text: str, spans: Sequence[tuple[int, int]], start: int, end: int) -> str:
    parts, place = [], start
    for first, last in spans:
        if last <= start or first >= end:
            continue
        parts += [text[place : max(first, place)], MASK]
        place = min(last, end)
    return _MASKS_PATTERN.sub(MASK, "".join([*parts, text[place:end]]))


EMPTY_MASK: Final = Mask(())
