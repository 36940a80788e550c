"""The cell of a program: its user, and what it may see and do. It is sent to the launcher and stored in the
record of an instance.

A later version reads the records of an earlier one, so added fields must be `NotRequired` and no field may be
renamed. Otherwise the later version could not read the records of running instances, and would start each a
second time.
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
    """The name of the user, to be added to its /etc/passwd; empty if the machine knows the user."""
    mounts: bool
    """True if the cell has its own file system view, shared memory and queues."""
    processes: bool
    """True if the cell sees only its own processes."""
    landlock: int
    """The version of the kernel's Landlock interface; 0 if Landlock is not used."""
    readable: list[str]
    writable: list[str]
    temporary: str
    """The folder for temporary files."""
    hidden: list[str]
    """Folders of Windlass that are hidden, and in which programs may have put links."""
    private: NotRequired[list[str]]
    """Other files and folders of the machine that are hidden."""
    settings: NotRequired[dict[str, str]]
    """Folders that are mounted over others, such as copies of /etc."""
    most_processes: int
    """Limit of processes. 0 keeps the limit of the parent, here and in the next two fields."""
    most_memory: NotRequired[int]
    """Limit of private memory of each process, in bytes."""
    largest_file: NotRequired[int]
    shared_memory: NotRequired[int]
    """Bytes that /dev/shm and System V memory may each hold."""
    mark: NotRequired[int]
    """A limit by which the engine recognizes its processes, where it has no process namespace (marks.py)."""
    families: NotRequired[bool]
    """True if the socket filter refuses address families that networks do not separate."""
    refuses_ports: NotRequired[bool]
    """True if it may listen only on TCP ports that the kernel chooses, where Landlock can enforce that."""
    network: NotRequired[CellNetwork]
    """Its own network; if absent, it uses the network of the machine."""
