"""The cell of a program: its user, and what it may see and do. Data for the launcher and for the record of an
instance.

A later version reads the records of an earlier one, so added fields must be `NotRequired`. Otherwise the
later version would not find records of running instances, and would start each a second time.
"""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

from windlass.base.isolation.network import CellNetwork

Identity = Literal["user", "namespace", "none"]
"""`user`: a user of the machine reserved for this service. `namespace`: a user namespace without rights.
`none`: neither."""


class Cell(TypedDict):
    identity: Identity
    uid: int
    """The user id on the machine."""
    inner: int
    """The user id inside the cell: the same, except in a namespace that root has made."""
    name: str
    """The name of a user that the machine does not know; empty if it knows it."""
    mounts: bool
    """True if the cell has its own file system view, shared memory and queues."""
    processes: bool
    """True if the cell sees only its own processes."""
    landlock: int
    """The version of the kernel's Landlock interface; 0 if Landlock does not guard files."""
    readable: list[str]
    writable: list[str]
    temporary: str
    """The folder for temporary files."""
    hidden: list[str]
    """Our own folders, in which programs may have put links."""
    private: NotRequired[list[str]]
    """Files and folders of the machine that are hidden besides."""
    most_processes: int
    """Limit of processes; 0 keeps the limit of the parent, here and in the next two."""
    most_memory: NotRequired[int]
    """Limit of private memory of each process, in bytes."""
    largest_file: NotRequired[int]
    shared_memory: NotRequired[int]
    """Bytes that /dev/shm and System V memory may each hold."""
    families: NotRequired[bool]
    """True if the socket filter refuses address families that networks do not separate."""
    refuses_ports: NotRequired[bool]
    """True if it may not listen on TCP ports of its choice, as far as Landlock can refuse it."""
    network: NotRequired[CellNetwork]
    """Its own network; without one, it has that of the machine."""
