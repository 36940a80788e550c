"""Defines the cell of a program: its user, and what it may see and do. The server sends the cell to the
launcher and stores it in the instance's record.

Later versions read the records of earlier versions, so new fields must be `NotRequired`, and no field may be
renamed. Otherwise a later version could not read the records of running instances, and would start each of
them a second time.
"""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

from windlass.base.isolation.network import CellNetwork

Identity = Literal["user", "namespace", "none"]
"""The way in which a program gets its identity. `user`: a user of the machine that is reserved for its
service. `namespace`: an unprivileged user namespace. `none`: neither."""


class Cell(TypedDict):
    identity: Identity
    uid: int
    """The user id outside of the cell."""
    inner: int
    """The user id inside the cell. It differs from `uid` only in a user namespace that root has created."""
    name: str
    """The user name to add to /etc/passwd of the cell; empty if the machine already has the user."""
    mounts: bool
    """Whether the cell has its own mounts, shared memory and message queues."""
    processes: bool
    """Whether the cell sees only its own processes."""
    landlock: int
    """The version of the kernel's Landlock interface; 0 if the cell does not use Landlock."""
    readable: list[str]
    writable: list[str]
    temporary: str
    """The folder for temporary files."""
    hidden: list[str]
    """Folders of Windlass that are hidden, and in which programs may have created links."""
    private: NotRequired[list[str]]
    """Other hidden files and folders of the machine."""
    settings: NotRequired[dict[str, str]]
    """Folders such as /etc, each with the folder that the cell sees in its place."""
    most_processes: int
    """The maximum number of processes. In this field and the next two, 0 keeps the parent's limit."""
    most_memory: NotRequired[int]
    """The maximum private memory of each process, in bytes."""
    largest_file: NotRequired[int]
    shared_memory: NotRequired[int]
    """The maximum size of /dev/shm and of System V memory, each, in bytes."""
    mark: NotRequired[int]
    """A resource limit that marks the cell's processes if it has no pid namespace (marks.py)."""
    families: NotRequired[bool]
    """Whether the socket filter refuses address families that network namespaces do not separate."""
    refuses_ports: NotRequired[bool]
    """Whether Landlock, if it can, restricts listening to TCP ports that the kernel chooses."""
    network: NotRequired[CellNetwork]
    """The cell's own network; if absent, the cell uses the machine's network."""
