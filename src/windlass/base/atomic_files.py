"""Files and folders that appear whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path


def move(source: Path, target: Path) -> None:
    """Renames, and never copies or replaces. Absent is fine: an interrupted move may be repeated."""
    if not os.path.lexists(source):
        return
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if os.path.lexists(target):
        raise FileExistsError(f"{target} is there already, and {source} is not moved over it")
    source.rename(target)


def write_whole(file: Path, content: bytes, *, durable: bool = True, draft: str = "new") -> None:
    """The old content or the new one, never a part, also on a full disk. `durable`: also after a power cut;
    `draft`: what its name ends with until then, another for each who may write at the same time."""
    beside = file.with_name(f"{file.name}.{draft}")
    with os.fdopen(
        os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb"
    ) as made:
        made.write(content)  # all of it, or an error: a single os.write may stop in the middle
        made.flush()
        if durable:
            os.fsync(made.fileno())
    beside.replace(file)
    if durable:
        sync(file.parent)


def sync(folder: Path) -> None:
    """What was renamed in it stays renamed when the power fails."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
