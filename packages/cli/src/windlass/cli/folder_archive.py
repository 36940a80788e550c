"""Packs a folder into an archive for upload. The same files always produce the same bytes."""

from __future__ import annotations

import gzip
import hashlib
import os
import stat
import tarfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Final

from msgspec import Struct

from windlass.base import dockerignore
from windlass.cli.ignored_files import (
    IgnoreRule,
    git_rules,
    is_ignored,
    is_ignored_for_docker,
    is_never_uploaded,
)

_COMPRESSION_LEVEL: Final = 6
_MAX_RULES_BYTES: Final = 1024 * 1024
_GIT_EXCLUDE_FILE: Final = ".git/info/exclude"


class FolderArchive(Struct, frozen=True):
    """An archive of a folder in an open file."""

    file: IO[bytes]
    size: int
    digest: str
    """SHA-256 of the archive."""
    files: int


def archive_folder(folder: Path, output_file: IO[bytes]) -> FolderArchive:
    """Writes all files of a folder that are not ignored into `output_file`, as a compressed tar archive."""
    count = 0
    # Omits time and name in the gzip header, so that equal folders produce equal archives.
    with (
        gzip.GzipFile("", "wb", _COMPRESSION_LEVEL, output_file, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for path in uploaded_files(folder):
            if _add(tar, folder, path):
                count += 1
    size = output_file.tell()
    output_file.seek(0)
    digest = hashlib.file_digest(output_file, "sha256").hexdigest()  # type: ignore[arg-type]
    output_file.seek(0)
    return FolderArchive(output_file, size, digest, count)


def uploaded_files(folder: Path) -> Iterator[str]:
    """Yields the paths of files and links that are not ignored, sorted."""
    docker = dockerignore.read_for_dockerfile(folder)
    own = git_rules(_read(folder / ".windlassignore"))
    for path in _walk(folder, "", _rules_above(folder), own):
        if not is_ignored_for_docker(docker, PurePosixPath(path)):
            yield path


def _walk(root: Path, inner: str, rules: list[IgnoreRule], folder_rules: list[IgnoreRule]) -> Iterator[str]:
    rules = rules + git_rules(_read(root / inner / ".gitignore"), inner)
    with os.scandir(root / inner) as scan:
        entries = sorted(scan, key=lambda entry: entry.name)
    for entry in entries:
        path = inner + entry.name
        is_folder = entry.is_dir(follow_symlinks=False)
        if is_never_uploaded(entry.name) or is_ignored(rules + folder_rules, path, is_folder):
            continue
        if not is_folder:
            yield path
        elif not (root / path / "pyvenv.cfg").exists():  # a virtual environment with an unusual name
            yield from _walk(root, f"{path}/", rules, folder_rules)


def _rules_above(folder: Path) -> list[IgnoreRule]:
    """Returns git's ignore rules of the parent folders, up to the root of the repository."""
    tops = next(
        (
            [*reversed(folder.parents[: place + 1])]
            for place, above in enumerate(folder.parents)
            if (above / ".git").exists()
        ),
        [],
    )
    if (folder / ".git").exists():
        return git_rules(_read(folder / _GIT_EXCLUDE_FILE))
    rules: list[IgnoreRule] = []
    for above in tops:
        text = _read(above / ".gitignore") + (
            "\n" + _read(above / _GIT_EXCLUDE_FILE) if above == tops[0] else ""
        )
        rules += _rules_from_parent(text, folder.relative_to(above).as_posix())
    return rules


def _rules_from_parent(text: str, folder: str) -> Iterator[IgnoreRule]:
    """Yields the rules of a parent folder that can match in this folder: rules without a path, and rules
    whose path begins with this folder."""
    for line in text.splitlines():
        bare = line.strip()
        marks = "!" if bare.startswith("!") else ""
        path = bare.removeprefix("!")
        if "/" not in path.rstrip("/") or path.startswith("**/"):
            yield from git_rules(line)
        elif path.lstrip("/").startswith(f"{folder}/"):
            yield from git_rules(f"{marks}/{path.lstrip('/').removeprefix(folder + '/')}")


def _read(file: Path) -> str:
    try:
        with file.open("rb") as stream:
            return stream.read(_MAX_RULES_BYTES).decode(errors="replace")
    except OSError:
        return ""


def _add(tar: tarfile.TarFile, folder: Path, path: str) -> bool:
    """Adds a file or symbolic link without owner and time. Returns False for other entries, such as
    sockets."""
    status = (folder / path).lstat()
    entry = tarfile.TarInfo(path)
    if stat.S_ISLNK(status.st_mode):
        entry.type = tarfile.SYMTYPE
        entry.linkname = os.readlink(folder / path)  # noqa: PTH115 (as it is written)
        tar.addfile(entry)
        return True
    if not stat.S_ISREG(status.st_mode):
        return False
    entry.mode = 0o755 if status.st_mode & stat.S_IXUSR else 0o644
    with (folder / path).open("rb") as file:
        entry.size = os.fstat(file.fileno()).st_size
        tar.addfile(entry, file)
    return True
