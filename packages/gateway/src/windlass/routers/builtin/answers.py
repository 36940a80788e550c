"""Parses the head of an instance's answer: body length, connection reuse, and the headers for the client.
Pure.

Instances are not trusted: the client's connection also carries answers of other instances. The client must
therefore find the same end of the answer as this parser.
"""

from __future__ import annotations

import re
from typing import Final

from windlass.base.http_in.wire import CONTENT_LENGTH, FIELD_BLOCK, FIELD_TEXT, Bad, without_fields

CHUNKED_LENGTH: Final = -1
UNTIL_CLOSE: Final = -2

_STATUS_LINE_PATTERN: Final = re.compile(rb"HTTP/1\.([01]) ([1-5][0-9]{2})( " + FIELD_TEXT + rb"*)?")
_INTERPRETED_FIELDS_PATTERN: Final = re.compile(
    rb"\r\n(content-length|transfer-encoding|connection|keep-alive|proxy-connection|upgrade):[\t ]*([^\r]*)"
)
_STATUSES_WITHOUT_BODY: Final = frozenset({204, 304})
_STATUSES_WITHOUT_LENGTH: Final = frozenset({*range(100, 200), 204})
"""Statuses whose answers have no body and must not have a Content-Length or Transfer-Encoding."""
_SINGLE_FIELDS: Final = frozenset({b"content-length", b"transfer-encoding"})


class AnswerHead:
    """The parsed and validated head of an answer."""

    __slots__ = ("_before", "_framing", "as_it_is", "keep", "length", "raw", "status", "upgrade")

    def __init__(self, raw: bytes) -> None:
        """`raw` is the head, including the empty line at its end."""
        first, _, _ = raw.partition(b"\r\n")
        line, block = _STATUS_LINE_PATTERN.fullmatch(first), raw[len(first) : -4]
        if not line or not FIELD_BLOCK.fullmatch(block):
            raise Bad(502, "The head of its answer is not valid HTTP.")
        self.raw = raw
        self.status = int(line[2])
        fields, rest = _split_fields(block)
        old = line[1] == b"0"
        tokens = {token.strip() for token in fields.get(b"connection", b"").lower().split(b",")}
        self.keep = not old and b"close" not in tokens
        self.upgrade = fields.get(b"upgrade", b"")
        self.length, self._framing = self._end(fields, old)
        if dropped := tokens - {b"", b"close", b"keep-alive", b"upgrade"}:
            rest = without_fields(rest, dropped)
        self.as_it_is = (
            not old and fields.keys() <= {b"content-length"} and self.status not in _STATUSES_WITHOUT_LENGTH
        )
        """Whether the head can be passed on unchanged."""
        self._before = b"HTTP/1.1 %b%b%b" % (line[2], line[3] or b" ", rest)

    def _end(self, fields: dict[bytes, bytes], is_http_1_0: bool) -> tuple[int, bytes]:
        """Returns the body length, and the header line that declares it."""
        coding, length = fields.get(b"transfer-encoding"), fields.get(b"content-length")
        if length is not None and not CONTENT_LENGTH.fullmatch(length):
            raise Bad(502, "The length of its answer is not a number.")
        if coding is not None and (is_http_1_0 or coding.lower() != b"chunked"):
            raise Bad(502, "Its answer has a Transfer-Encoding other than chunked.")
        if self.status in _STATUSES_WITHOUT_LENGTH:
            return 0, b""
        if coding is not None:
            self.keep = self.keep and length is None
            framing, body_length = b"\r\nTransfer-Encoding: chunked", CHUNKED_LENGTH
        elif length is not None:
            body_length = int(length)
            framing = b"\r\nContent-Length: %d" % body_length
        else:
            framing, body_length = b"", UNTIL_CLOSE
        return (0 if self.status in _STATUSES_WITHOUT_BODY else body_length), framing

    def head(self, *, closes_connection: bool, plain: bool = False) -> bytes:
        """Returns the head for the client. `plain`: the client is HTTP/1.0 and does not support chunked
        bodies."""
        framing = b"" if plain and self.length == CHUNKED_LENGTH else self._framing
        return (
            self._before + framing + (b"\r\nConnection: close\r\n\r\n" if closes_connection else b"\r\n\r\n")
        )

    def switching(self) -> bytes:
        return self._before + b"\r\nConnection: Upgrade\r\nUpgrade: " + self.upgrade + b"\r\n\r\n"


def with_lines(answer: bytes, lines: bytes) -> bytes:
    """Adds header lines to an answer that begins with its head, unless it has the first of them already."""
    if not lines:
        return answer
    end = answer.find(b"\r\n\r\n") + 2
    if lines[: lines.find(b":") + 1].lower() in answer[:end].lower():
        return answer  # an application knows better
    first = answer.find(b"\r\n")
    return answer[:first] + lines + answer[first:]


def _split_fields(block: bytes) -> tuple[dict[bytes, bytes], bytes]:
    low = block.lower()
    fields: dict[bytes, bytes] = {}
    kept, at = [], 0
    for match in _INTERPRETED_FIELDS_PATTERN.finditer(low):
        kept.append(block[at : match.start()])
        at = match.end()
        name, value = match[1], block[match.start(2) : at].rstrip(b"\t ")
        if name in fields and name in _SINGLE_FIELDS:
            raise Bad(502, f"Its answer has more than one {name.decode()}.")
        fields[name] = fields[name] + b"," + value if name in fields else value
    kept.append(block[at:])
    return fields, b"".join(kept)
