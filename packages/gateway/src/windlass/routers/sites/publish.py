"""Publishes the built files of a site for a router: copies them, names them by their content, and compresses
each once.

The build is untrusted. Only regular files inside the folder without a hidden path segment are published. A
symbolic link is published as its target file if the target may be published, too.

Files whose name contains a digest of the content are marked immutable. A wrong mark would make browsers cache
an outdated file for a year, so only certain cases are marked: folders that build tools reserve for such
files, and digests that cannot be a word, a number or a date.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from windlass.base.atomic_files import write_whole
from windlass.routers.sites.index import GZIP_SUFFIX, INDEX_FILE, SiteFile, SiteRules, encode_index
from windlass.routers.sites.media_types import is_asset, is_compressible, media_type, suffix_of
from windlass.routers.sites.rules import (
    MAX_RULES_BYTES,
    HeaderRule,
    parse_headers,
    parse_redirects,
)

_HASHED_FOLDERS: Final = ("_next/static/", "_astro/", "_app/immutable/")
"""Folders of Next, Astro and SvelteKit in which every file name contains a digest or a build id."""
_CODE_SUFFIXES: Final = frozenset({"js", "mjs", "cjs", "css", "wasm", "map", "woff", "woff2", "ttf"})
_DATA_SUFFIXES: Final = frozenset({"json", "xml", "txt", "csv", "rss", "atom", "webmanifest", "pdf", "zip"})
"""Types of files that users download and name themselves."""
_HEX_HASH_PATTERN: Final = re.compile(r"[0-9a-f]{8,64}")
_MIXED_HASH_PATTERN: Final = re.compile(r"[A-Za-z0-9_]{8,32}")
_SEPARATORS_PATTERN: Final = re.compile(r"[.~-]")
_CHANGES_OF_HEX, _CHANGES_OF_CODE, _CHANGES = 2, 3, 4
"""Minimum number of changes between digits, lower case and upper case in a digest: hexadecimal, of code
files, and of other files."""


def has_content_hash(path: str) -> bool:
    """Returns whether a path contains a digest of the content, which therefore never changes. `path` is
    relative to the site's root."""
    suffix = suffix_of(path)
    if not is_asset(path) or suffix in _DATA_SUFFIXES:
        return False
    if path.startswith(_HASHED_FOLDERS):
        return True
    _, *tokens = _SEPARATORS_PATTERN.split(
        path.rpartition("/")[2].removesuffix(f".{suffix}").removesuffix(".js")
    )
    return any(_is_digest(token, is_code=suffix in _CODE_SUFFIXES) for token in tokens)


def _is_digest(token: str, *, is_code: bool) -> bool:
    changes = _character_class_changes(token)
    if _HEX_HASH_PATTERN.fullmatch(token):
        return changes >= _CHANGES_OF_HEX
    has_all = any(map(str.isupper, token)) and any(map(str.isdigit, token))
    least = _CHANGES_OF_CODE if is_code else _CHANGES
    return bool(_MIXED_HASH_PATTERN.fullmatch(token)) and has_all and changes >= least


def _character_class_changes(token: str) -> int:
    """Returns how often the character class (lower case, upper case, digit) changes in a text."""
    kinds = [letter.isdigit() + 2 * letter.isupper() for letter in token]
    return sum(before != after for before, after in pairwise(kinds))


REDIRECTS, HEADERS = "_redirects", "_headers"
NOT_FOUND: Final = "404.html"
WELL_KNOWN: Final = ".well-known"
MAX_FILES: Final = 50_000
MAX_SITE_BYTES: Final = 4 * 1024**3
_MAX_DEPTH: Final = 60
_MAX_PATH_LENGTH: Final = 1000
_CHUNK_BYTES: Final = 1024 * 1024
_CHECKED_BYTES: Final = 64 * 1024 * 1024
"""Number of bytes after which the free space of the disk is checked again. A file without content of any size
costs a build step nothing."""
_MAX_HTTP_DATE: Final = 253_402_300_799
"""The last second of the year 9999, the maximum of an HTTP date."""
_MIN_COMPRESSED_FILE_BYTES, _MAX_COMPRESSED_FILE_BYTES = 256, 64 * 1024 * 1024
"""Minimum and maximum size in bytes of a file that is compressed."""
_MAX_COMPRESSED_SITE_BYTES: Final = 1024**3
_MAX_COMPRESSED_RATIO: Final = 0.95
_BEST_BELOW: Final = 1024 * 1024
"""Files below this size in bytes are compressed at the highest level."""
_OPEN_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class PublishError(Exception):
    """Raised if a site cannot be published. The message is for the user who deployed the site."""


class SiteSettings(Struct, frozen=True, kw_only=True):
    """The settings of a site that affect its answers."""

    folder: str = "."
    title: str = "the static folder"
    """Name of the folder in messages."""
    fallback: str = ""
    derived_fallback: str = ""
    headers: tuple[HeaderRule, ...] = ()


class PublishReport(Struct):
    """Statistics of a published site, for the build log."""

    files: int = 0
    bytes: int = 0
    compressed: int = 0
    """Number of files with a compressed copy."""
    left_out: int = 0
    """Number of skipped files: hidden, a link out of the folder, or a name that no URL can have."""
    problems: list[str] = field(default_factory=list)

    def lines(self) -> Iterator[str]:
        yield (
            f"Put in place for the gateway: {_count(self.files, 'file')} with {_size_text(self.bytes)}, "
            f"{self.compressed} also compressed."
        )
        if self.left_out:
            yield (
                f"Left out: {_count(self.left_out, 'file')}, because it is hidden, leads out of the "
                f"folder, or has a name that no URL can have."
            )
        yield from self.problems


def _size_text(number: int) -> str:
    if number < 1000:
        return f"{number} bytes"
    return f"{number / 1e6:.1f} MB" if number >= 100_000 else f"{number / 1e3:.1f} KB"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def publish(
    source: Path,
    settings: SiteSettings,
    destination: Path,
    previous_release: Path | None = None,
    check_room: Callable[[], None] = lambda: None,
) -> PublishReport:
    """Publishes a site into the empty folder `destination`. Files with equal content are hard links to the
    former release's files. `check_room` is called again and again, and raises PublishError if the
    disk has too little room."""
    report = PublishReport()
    root = _site_root(source, settings)
    copy = _Copier(destination, previous_release, check_room)
    files: dict[str, SiteFile] = {}
    for path, real in _walk(root, report):
        if path in {REDIRECTS, HEADERS}:
            continue
        file = _add_file(copy, path, real, report)
        if file is None:
            report.left_out += 1
            continue
        files[path] = file
        report.files, report.bytes = report.files + 1, report.bytes + file.size
        report.compressed += bool(file.gzip)
        _check_limits(report, settings)
    if not files:
        raise PublishError(f"Build a page into {settings.title}: there is no file in it that can be served")
    rules = _read_rules(root, settings, report)
    if rules.fallback and rules.fallback not in files:
        raise PublishError(
            f"Build a page {rules.fallback}, or change static_fallback: there is none in {settings.title}"
        )
    if not rules.fallback and settings.derived_fallback in files and NOT_FOUND not in files:
        rules = replace(rules, fallback=settings.derived_fallback)
    write_whole(destination / INDEX_FILE, encode_index(files, rules), durable=False)
    return report


def _site_root(source: Path, settings: SiteSettings) -> Path:
    root = _resolve(source)
    if root is None or not root.is_dir():
        raise PublishError(
            f"Change static_folder, or the build command: the build has made no folder {settings.title}"
        )
    return root


def _check_limits(report: PublishReport, settings: SiteSettings) -> None:
    if report.files > MAX_FILES:
        raise PublishError(
            f"Keep {settings.title} below {MAX_FILES:,} files: the gateway serves no more of one site"
        )
    if report.bytes > MAX_SITE_BYTES:
        raise PublishError(
            f"Keep {settings.title} below {MAX_SITE_BYTES // 1024**3} GiB: "
            "the gateway serves no more of one site"
        )


# The files of the build


def _walk(root: Path, report: PublishReport) -> Iterator[tuple[str, Path]]:
    """Yields each file that may be served: its path in the site, and its real path."""
    ahead = [("", 0)]
    while ahead:
        folder, depth = ahead.pop()
        with os.scandir(root / folder) as entries:
            for entry in entries:
                path = f"{folder}/{entry.name}" if folder else entry.name
                if not is_servable(path):
                    report.left_out += 1
                elif entry.is_dir(follow_symlinks=False):
                    if depth < _MAX_DEPTH:
                        ahead.append((path, depth + 1))
                elif entry.is_symlink():
                    real = _link_target(root, path)
                    report.left_out += real is None
                    if real is not None:
                        yield path, real
                elif entry.is_file(follow_symlinks=False):
                    yield path, root / path
                else:
                    report.left_out += 1


def is_servable(path: str) -> bool:
    """Returns whether the last segment of a path is not hidden and can be part of a URL."""
    name = path.rpartition("/")[2]
    if name.startswith(".") and path != WELL_KNOWN:
        return False
    return name.isprintable() and "\\" not in name and len(path.encode(errors="replace")) <= _MAX_PATH_LENGTH


def _link_target(root: Path, path: str) -> Path | None:
    """Returns the target of a symbolic link if the target may be served; otherwise None."""
    real = _resolve(root / path)
    if real is None or not real.is_relative_to(root) or not real.is_file():
        return None
    parts = real.relative_to(root).parts
    is_shown = all(is_servable("/".join(parts[: count + 1])) for count in range(len(parts)))
    return real if is_shown else None


def _resolve(path: Path) -> Path | None:
    """Returns the real path of a path; None if it does not exist. The kernel resolves the links: Python would
    follow more links than the kernel allows, and overflow the stack."""
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return Path(f"/proc/self/fd/{place}").readlink()
    finally:
        os.close(place)


def _open(path: Path) -> int:
    """Opens a regular file. Raises OSError for any other type of file, even if the build swaps the file
    concurrently."""
    opened = os.open(path, _OPEN_FLAGS)
    if stat.S_ISREG(os.fstat(opened).st_mode):
        return opened
    os.close(opened)
    raise OSError("it is not a file")


# Contents


class _Copier:
    """Copies file contents into a release. Equal contents are stored once."""

    def __init__(
        self, destination: Path, previous_release: Path | None, check_room: Callable[[], None]
    ) -> None:
        self._into, self._former, self._check_room = destination, previous_release, check_room
        self._unchecked = 0
        """The bytes that were written since the last check of the disk."""
        self._compressed: dict[str, int] = {}
        self._left = _MAX_COMPRESSED_SITE_BYTES

    def copy(self, fd: int) -> tuple[str, int]:
        """Copies an open file. Returns the digest of its content, and its size."""
        digest, size, new = hashlib.sha256(), 0, self._into / "new"
        with os.fdopen(fd, "rb", buffering=0) as source, new.open("wb") as target:
            while piece := source.read(_CHUNK_BYTES):
                digest.update(piece)
                target.write(piece)
                size += len(piece)
                self._note_written(len(piece))
                if size > MAX_SITE_BYTES:
                    break
        name = digest.hexdigest()[:40]
        if not self._link_unchanged_file(name):
            new.rename(self._into / name)
        new.unlink(missing_ok=True)
        return name, size

    def _note_written(self, size: int) -> None:
        self._unchecked += size
        if self._unchecked >= _CHECKED_BYTES:
            self._unchecked = 0
            self._check_room()

    def compress(self, name: str, size: int) -> int:
        """Creates a compressed copy if it saves enough space. Returns the size of the copy, or 0."""
        if name not in self._compressed:
            self._compressed[name] = self._compress(name, size)
        return self._compressed[name]

    def _compress(self, name: str, size: int) -> int:
        target = self._into / (name + GZIP_SUFFIX)
        if self._link_unchanged_file(name + GZIP_SUFFIX):
            return target.stat().st_size
        if not _MIN_COMPRESSED_FILE_BYTES <= size <= min(_MAX_COMPRESSED_FILE_BYTES, self._left):
            return 0
        self._left -= size
        small = _write_gzip(self._into / name, target, 9 if size < _BEST_BELOW else 6)
        if small < size * _MAX_COMPRESSED_RATIO:
            return small
        target.unlink()
        return 0

    def _link_unchanged_file(self, name: str) -> bool:
        """Links a file of the former release into the new release. Returns whether the new release has the
        file."""
        if (self._into / name).exists():
            return True
        with suppress(OSError):  # the file does not exist, or has too many hard links
            if self._former is not None:
                os.link(self._former / name, self._into / name, follow_symlinks=False)
                return True
        return False


def _write_gzip(source: Path, target: Path, level: int) -> int:
    packer = zlib.compressobj(level, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    with source.open("rb") as plain, target.open("wb") as packed:
        while piece := plain.read(_CHUNK_BYTES):
            packed.write(packer.compress(piece))
        packed.write(packer.flush())
        return packed.tell()


def _add_file(copier: _Copier, path: str, real: Path, report: PublishReport) -> SiteFile | None:
    try:
        opened = _open(real)
    except OSError:
        return None
    modified = int(os.fstat(opened).st_mtime)
    digest, size = copier.copy(opened)
    return SiteFile(
        digest=digest,
        size=size,
        type=media_type(path),
        modified=min(max(0, modified), _MAX_HTTP_DATE),
        gzip=copier.compress(digest, size) if is_compressible(path) else 0,
        is_immutable=has_content_hash(path),
    )


# Rules


def _read_rules(root: Path, settings: SiteSettings, report: PublishReport) -> SiteRules:
    redirects = parse_redirects(_text_of(root / REDIRECTS, report))
    headers = parse_headers(_text_of(root / HEADERS, report))
    for parsed in (redirects, headers):
        report.problems += parsed.problems
    return SiteRules(
        fallback=settings.fallback.strip("/"),
        redirects=redirects.redirects,
        headers=(*headers.headers, *settings.headers),
    )


def _text_of(path: Path, report: PublishReport) -> str:
    """Returns the text of a rule file; empty if the file does not exist or is too long."""
    try:
        opened = _open(path)
    except OSError:
        return ""
    with os.fdopen(opened, "rb") as file:
        content = file.read(MAX_RULES_BYTES + 1)
    if len(content) > MAX_RULES_BYTES:
        report.problems.append(f"{path.name} is left out: keep it below {MAX_RULES_BYTES // 1024} KiB")
        return ""
    return content.decode(errors="replace")
