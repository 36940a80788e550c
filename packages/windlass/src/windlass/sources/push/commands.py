"""The beginning of a push, which lists the refs to update, and the packets of git's protocol.

See gitprotocol-pack(5): a packet begins with its length in four hexadecimal digits, and 0000 ends a list.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from msgspec import Struct

from windlass.base.lazy import lazy_pattern

ZERO_COMMIT: Final = "0" * 40
"""The commit id of a ref that does not exist."""
FLUSH_PACKET: Final = b"0000"
KEEP_ALIVE: Final = b"0005\x01"
"""An empty packet, as git itself sends while it works."""
OUTPUT, PROGRESS, FATAL = 1, 2, 3
"""The bands of an answer: its data, lines to show, and the reason of an abort."""
_MAX_BAND_BYTES: Final = 65_515
"""The number of bytes that one packet of a band carries."""
_MAX_COMMANDS_BYTES: Final = 512 * 1024
_MAX_REFS: Final = 1000
_UPDATE_PATTERN: Final = lazy_pattern(
    r"([0-9a-f]{40}) ([0-9a-f]{40}) (refs/[\x21-\x7e\x80-\U0010ffff]{1,500})"
)
_OFFERED: Final = (
    "report-status",
    "delete-refs",
    "side-band-64k",
    "ofs-delta",
    "object-format=sha1",
    "agent=windlass",
)


class PushRefused(Exception):
    """Raised if a push cannot be taken. The message is for the person who pushes."""


class RefUpdate(Struct, frozen=True):
    """One ref that a push moves from a commit to another; `ZERO_COMMIT` stands for a ref that does not
    exist."""

    old: str
    new: str
    ref: str

    @property
    def is_deletion(self) -> bool:
        return self.new == ZERO_COMMIT


class PushHead(Struct, frozen=True):
    """The list of updates with which a push begins."""

    updates: tuple[RefUpdate, ...] = ()
    capabilities: frozenset[str] = frozenset()
    is_shallow: bool = False
    """Whether the client has only a part of the history."""

    @property
    def has_pack(self) -> bool:
        """Whether objects follow. Deletions need none."""
        return any(not update.is_deletion for update in self.updates)


class HeadReader:
    """Reads the head of a push from pieces of any size."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._lines: list[bytes] = []

    def feed(self, data: bytes) -> PushHead | None:
        """Returns the head once it has arrived; None until then. `rest` are the bytes behind it."""
        self._held += data
        while len(self._held) >= 4:
            length = self._length()
            if length == 0:
                del self._held[:4]
                return head_of(self._lines)
            if len(self._held) < length:
                break
            self._lines.append(bytes(self._held[4:length]))
            del self._held[:length]
            if len(self._lines) > _MAX_REFS:
                raise PushRefused(f"push fewer refs at once: at most {_MAX_REFS} are taken")
        if len(self._held) + sum(map(len, self._lines)) > _MAX_COMMANDS_BYTES:
            raise PushRefused("push fewer refs at once")
        return None

    @property
    def rest(self) -> bytes:
        return bytes(self._held)

    def _length(self) -> int:
        try:
            length = int(self._held[:4], 16)
        except ValueError:
            length = 1
        if 0 < length < 5:
            raise PushRefused("this is not a push of git")
        return length


def head_of(lines: Collection[bytes]) -> PushHead:
    updates: list[RefUpdate] = []
    capabilities: frozenset[str] = frozenset()
    is_shallow = False
    for line in lines:
        if line.startswith(b"shallow "):
            is_shallow = True
            continue
        text, zero, words = line.partition(b"\0")
        if zero:
            capabilities = frozenset(words.decode(errors="replace").split())
        match = _UPDATE_PATTERN.fullmatch(text.decode(errors="replace").removesuffix("\n"))
        if match is None:
            raise PushRefused("this is not a push of git, or of a repository with SHA-1 commits")
        updates.append(RefUpdate(*match.groups()))
    if len({update.ref for update in updates}) < len(updates):
        raise PushRefused("push each ref once")
    return PushHead(tuple(updates), capabilities, is_shallow)


def packet(data: bytes) -> bytes:
    return b"%04x" % (len(data) + 4) + data


def on_band(band: int, data: bytes) -> bytes:
    """Returns data as packets of a band."""
    starts = range(0, len(data), _MAX_BAND_BYTES)
    return b"".join(packet(bytes([band]) + data[start : start + _MAX_BAND_BYTES]) for start in starts)


def advertisement(refs: Mapping[str, str]) -> bytes:
    """Returns the refs that a push compares, in the form of `git receive-pack --advertise-refs`."""
    listed = sorted(refs.items()) or [("capabilities^{}", ZERO_COMMIT)]
    lines = [f"{commit} {ref}" for ref, commit in listed]
    lines[0] += "\0" + " ".join(_OFFERED)
    service = packet(b"# service=git-receive-pack\n") + FLUSH_PACKET
    return service + b"".join(packet(f"{line}\n".encode()) for line in lines) + FLUSH_PACKET


def head_for_git(updates: Collection[RefUpdate]) -> bytes:
    """Returns the list of updates for `git receive-pack`, which then answers with a report alone."""
    lines = [f"{update.old} {update.new} {update.ref}".encode() for update in updates]
    lines[0] += b"\0report-status object-format=sha1 agent=windlass"
    return b"".join(map(packet, lines)) + FLUSH_PACKET


def outcomes_in(report: bytes) -> dict[str, str]:
    """Returns the reasons of refused refs from a report of git, by ref; empty for refs that were updated.

    Raises PushRefused if git could not store the objects.
    """
    outcomes: dict[str, str] = {}
    unpacked = ""
    for line in _lines_of(report):
        word, _, rest = line.partition(" ")
        ref, _, reason = rest.partition(" ")
        match word:
            case "unpack":
                unpacked = rest
            case "ok":
                outcomes[ref] = ""
            case "ng":
                outcomes[ref] = reason or "git gave no reason"
    if unpacked != "ok":
        raise PushRefused(unpacked or "git gave no reason")
    return outcomes


def _lines_of(report: bytes) -> Iterator[str]:
    at = 0
    while at + 4 <= len(report):
        length = int(report[at : at + 4], 16)
        if length < 4:
            return
        yield report[at + 4 : at + length].decode(errors="replace").rstrip("\n")
        at += length


def report_of(outcomes: Mapping[str, str], *, unpacked: str = "ok") -> bytes:
    """Returns the report for the client. Reasons are one line."""
    lines = [f"unpack {unpacked}"]
    for ref, reason in outcomes.items():
        lines.append(f"ng {ref} {reason}" if reason else f"ok {ref}")
    return b"".join(packet(f"{line}\n".encode()) for line in lines) + FLUSH_PACKET
