"""The cell of a program: what it may see and do. Data for the launcher and the record of an instance.

A later version reads the records of an earlier one, so a field that is added is `NotRequired`. Otherwise the
later version finds no record of what runs, and starts every instance a second time.
"""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

Identity = Literal["user", "namespace", "none"]
"""A user of the machine that nobody else is; or a namespace in which we are one without rights; or
neither."""


class Cell(TypedDict):
    identity: Identity
    uid: int
    """Of the machine."""
    inner: int
    """Which user the program believes to be: the same, except in a namespace that root has made."""
    name: str
    """Of a user that the machine does not know; empty: it knows."""
    mounts: bool
    """It sees a file system of its own, and its own shared memory and queues."""
    processes: bool
    """It sees its own processes only."""
    landlock: int
    """The version of the kernel's interface; 0: files are not guarded by it."""
    readable: list[str]
    writable: list[str]
    temporary: str
    """Its folder for what is temporary."""
    hidden: list[str]
    most_processes: int
    """0: as many as whoever starts it may have; so with the next two."""
    most_memory: NotRequired[int]
    """Bytes that each of its processes may have as its own."""
    largest_file: NotRequired[int]
