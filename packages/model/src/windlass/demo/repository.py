"""Writes a bare git repository with one commit. The same files always result in the same commit.

No program is run, and the current time is not used. Every file is written atomically and the branch last, so
that writing may be interrupted, repeated, and done by several processes at the same time.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import zlib
from pathlib import Path
from typing import Final

URL: Final = "https://windlass.invalid/demo.git"
"""The domain `.invalid` never resolves; see RFC 2606, section 2."""
BRANCH: Final = "main"

FILES: Final = Path(__file__).with_name("application")
_EXCLUDED_NAMES: Final = ("__pycache__",)
_AUTHOR_LINE: Final = "Windlass <demo@windlass.invalid> 1767225600 +0000"
_COMMIT_MESSAGE: Final = "A guestbook"
# Allows fetching commits by id, including commits of an earlier version of Windlass.
_REPOSITORY_CONFIG: Final = """[core]
\trepositoryformatversion = 0
\tbare = true
[uploadpack]
\tallowFilter = true
\tallowAnySHA1InWant = true
"""


def repository(folder: Path) -> Path:
    """Writes this version's repository into a folder. Earlier commits are kept."""
    for name in ("objects", "refs/heads"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    _write(folder / "config", _REPOSITORY_CONFIG.encode())
    _write(folder / "HEAD", f"ref: refs/heads/{BRANCH}\n".encode())
    _write(folder / "refs/heads" / BRANCH, _commit(folder).encode() + b"\n")
    return folder


def _commit(folder: Path) -> str:
    lines = (
        f"tree {_write_tree(folder, FILES)}",
        f"author {_AUTHOR_LINE}",
        f"committer {_AUTHOR_LINE}",
        "",
        _COMMIT_MESSAGE,
        "",
    )
    return _write_object(folder, "commit", "\n".join(lines).encode())


def _write_tree(folder: Path, files: Path) -> str:
    entries = []
    for path in files.iterdir():
        if path.name in _EXCLUDED_NAMES:
            continue
        mode, name = ("40000", f"{path.name}/") if path.is_dir() else ("100644", path.name)
        object_id = (
            _write_tree(folder, path) if path.is_dir() else _write_object(folder, "blob", path.read_bytes())
        )
        entries.append((name, f"{mode} {path.name}\0".encode() + bytes.fromhex(object_id)))
    # Git sorts folders as if their names ended with a slash.
    return _write_object(folder, "tree", b"".join(entry for _, entry in sorted(entries)))


def _write_object(folder: Path, kind: str, content: bytes) -> str:
    whole = f"{kind} {len(content)}\0".encode() + content
    name = hashlib.sha1(whole, usedforsecurity=False).hexdigest()
    file = folder / "objects" / name[:2] / name[2:]
    if not file.exists():
        file.parent.mkdir(exist_ok=True)
        _write(file, zlib.compress(whole))
    return name


def _write(file: Path, content: bytes) -> None:
    # Git removes stale files with this prefix.
    descriptor, unfinished = tempfile.mkstemp(dir=file.parent, prefix="tmp_obj_")
    try:
        with os.fdopen(descriptor, "wb") as writing:
            writing.write(content)
            writing.flush()
            os.fsync(descriptor)
        Path(unfinished).replace(file)
    finally:
        Path(unfinished).unlink(missing_ok=True)
