"""An independent account of cronie: its main loop, minute by minute, over the clock of a zone.

It shares nothing with `windlass.core.words`: neither the parser nor the arithmetic. It keeps a virtual time
beside that of the clock, as `cron.c` of cronie does, and starts jobs as that loop starts them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

_NAMES = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]


class Entry:
    """A line of a crontab."""

    def __init__(self, text: str) -> None:
        fields = text.split()
        self.minute, self.hour, self.dom, self.month, self.dow = (
            self._set(word, low, high) for word, (low, high) in zip(
                fields, ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7)), strict=True
            )
        )  # fmt: skip
        if 7 in self.dow:
            self.dow.add(0)
        self.both = fields[2][0] == "*" or fields[4][0] == "*"
        self.wild = fields[0][0] == "*" or fields[1][0] == "*"

    def _set(self, word: str, low: int, high: int) -> set[int]:
        numbers: set[int] = set()
        for part in word.split(","):
            part, _, step = part.partition("/")
            if part == "*":
                first, last = low, high
            else:
                first_word, _, last_word = part.partition("-")
                first = self._number(first_word)
                last = self._number(last_word) if last_word else first
            numbers |= {number for number in range(first, last + 1) if (number - first) % int(step or 1) == 0}
        return numbers

    def _number(self, word: str) -> int:
        if word in _NAMES:
            return _NAMES.index(word) + 1
        return _DAYS.index(word) if word in _DAYS else int(word)

    def matches(self, clock: datetime) -> bool:
        dom, dow = clock.day in self.dom, clock.isoweekday() % 7 in self.dow
        day = (dom and dow) if self.both else (dom or dow)
        return clock.minute in self.minute and clock.hour in self.hour and clock.month in self.month and day


def clocks(zone: ZoneInfo, first: int, last: int) -> list[datetime]:
    """Returns what the clock of a zone shows in each minute, and in the one before the first."""
    return [
        datetime.fromtimestamp(minute * 60, UTC).astimezone(zone).replace(tzinfo=None, fold=0)
        for minute in range(first - 1, last + 1)
    ]


def simulate(entry: Entry, shown: Sequence[datetime], first: int) -> Iterator[int]:
    """Yields the minutes in which cronie starts the entry, from the minute `first` on."""
    minute = timedelta(minutes=1)
    virtual = shown[0]
    for now, real in enumerate(shown[1:], first):
        if (step := real - virtual) == minute:  # as usual
            virtual = real
            starts = real.minute in entry.minute and entry.matches(real)
        elif minute < step <= timedelta(hours=3):  # the clock was set forward
            starts = entry.wild and entry.matches(real)
            while virtual < real:
                virtual += minute
                starts |= not entry.wild and entry.matches(virtual)
        elif timedelta(hours=-3) < step < minute:  # the clock was set back: virtual time waits
            starts = entry.wild and entry.matches(real)
        else:
            virtual = real
            starts = entry.matches(virtual)
        if starts:
            yield now
