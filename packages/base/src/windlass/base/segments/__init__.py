"""Logs in files: a stream is a folder of append-only segments, a line is one JSON object.

A library of its own, which knows nothing of services or builds. Writing is one system call for a batch.
Reading begins at the end and costs the same for any length. Excess and old lines are removed in whole
segments.
"""

from windlass.base.segments.files import Gone
from windlass.base.segments.lines import (
    EVERYTHING,
    LineFilter,
    id_of,
    instant,
    line_filter,
    moment,
)
from windlass.base.segments.streams import Segments

__all__ = [
    "EVERYTHING",
    "Gone",
    "LineFilter",
    "Segments",
    "id_of",
    "instant",
    "line_filter",
    "moment",
]
