"""Stores logs in files. A stream is a folder of append-only segments, and each line is a JSON object.

This library is independent of services and builds. A batch is written with one system call. Reading begins at
the end, so its cost does not depend on the length of a stream. Lines are removed in whole segments, when they
are in excess or too old.
"""

from windlass.base.segments.files import Gone
from windlass.base.segments.lines import (
    ALL_LINES,
    LineFilter,
    id_of,
    instant,
    line_filter,
    moment,
)
from windlass.base.segments.streams import Segments

__all__ = [
    "ALL_LINES",
    "Gone",
    "LineFilter",
    "Segments",
    "id_of",
    "instant",
    "line_filter",
    "moment",
]
