"""The console's files, loaded once into memory: the page, and its assets below a path with their version.

Browsers revalidate the page at each visit. The page names the current version. Assets below a version never
change, so they can be cached forever.
"""

from __future__ import annotations

import gzip
import hashlib
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

from msgspec import Struct

from windlass.base.entry_points import entry_points
from windlass.base.errors import Unavailable
from windlass.console.joining import join

ROOT: Final = Path(__file__).with_name("static")
BASE: Final = "/console"
PACKAGES: Final = "windlass.console"
"""The group of entry points of packages that have files of the console."""
_NEW_SERVICE_PATTERN: Final = re.compile(r"js/pages/new/([a-z]\w*)\.js")
_BEGIN: Final = b"\nexport async function begin("
"""What the page of a new service has."""
_VERSION_MARK: Final = b"{version}"
_NEW_SERVICES_MARK: Final = b"{new_services}"
_ICONS_MARK: Final = b"{icons}"
_ICON_FILE: Final = "icons.svg"
"""The sprite, which stands in the page: an icon is there when the first page is drawn."""
_OTHER_VERSION_PATTERN: Final = re.compile(rf"{BASE}/[0-9a-f]{{16}}/.+")
_CONTENT_TYPES: Final = {
    ".html": b"text/html; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".css": b"text/css; charset=utf-8",
    ".svg": b"image/svg+xml",
}
POLICY: Final = (
    b"default-src 'self'; base-uri 'none'; object-src 'none'; form-action 'none'; frame-ancestors 'none'; "
    b"require-trusted-types-for 'script'; trusted-types 'none'"
)
"""The content security policy: scripts and styles load only from this server, and text never becomes a
script."""


_PAGE_HEADERS: Final = (
    (b"content-security-policy", POLICY),
    (b"referrer-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
)


class ConsoleFile(Struct, frozen=True):
    body: bytes
    packed: bytes
    """The body, compressed with gzip."""
    content_type: bytes
    etag: bytes
    is_forever: bool
    """Returns whether the content at the file's address never changes."""
    headers: tuple[tuple[bytes, bytes], ...]


class ConsoleFiles:
    def __init__(self, root: Path = ROOT) -> None:
        contents = sources(root)
        digest = hashlib.sha256()
        for name, content in contents.items():
            digest.update(f"{name}\0{len(content)}\0".encode() + content)
        self.version = digest.hexdigest()[:16]
        contents = join(contents)
        page = contents.pop("index.html").replace(_VERSION_MARK, self.version.encode())
        page = page.replace(_NEW_SERVICES_MARK, " ".join(made_by_hand(contents)).encode())
        page = page.replace(_ICONS_MARK, contents.pop(_ICON_FILE).strip())
        self._page = _file("index.html", page, is_forever=False)
        self._files = {
            f"{BASE}/{self.version}/{name}": _file(name, content, is_forever=True)
            for name, content in contents.items()
        }

    def find(self, path: str) -> ConsoleFile | None:
        """Returns the file at a path. Paths of the console that are not files return the page, which routes
        them.

        Raises Unavailable for assets of another version. During a rolling upgrade, a proxy then tries the
        other servers.
        """
        if file := self._files.get(path):
            return file
        if _OTHER_VERSION_PATTERN.fullmatch(path):
            raise Unavailable("Load the page again: this server has another version of the console")
        is_place = path == BASE or path.startswith(f"{BASE}/")
        return self._page if is_place and Path(path).suffix not in _CONTENT_TYPES else None


def sources(root: Path = ROOT) -> dict[str, bytes]:
    """Returns the files of the console and those of packages, which are served beside them. A package adds
    the page of a new service of its kind, such as `js/pages/new/cache.js`. It cannot replace a file."""
    folders = [Path(next(iter(point.load().__path__))) for point in entry_points(PACKAGES)]
    found = {
        str(path.relative_to(folder)): path
        for folder in (*folders, root)
        for path in folder.rglob("*")
        if path.suffix in _CONTENT_TYPES
    }
    return {name: path.read_bytes() for name, path in sorted(found.items())}


def made_by_hand(contents: Mapping[str, bytes]) -> list[str]:
    """Returns the kinds of services that have a page for a new one."""
    return [
        match[1]
        for name, content in contents.items()
        if (match := _NEW_SERVICE_PATTERN.fullmatch(name)) and _BEGIN in content
    ]


def _file(name: str, content: bytes, *, is_forever: bool) -> ConsoleFile:
    etag = b'"%b"' % hashlib.sha256(content).hexdigest()[:32].encode()
    packed = gzip.compress(content, 9, mtime=0)
    headers = () if is_forever else _PAGE_HEADERS
    return ConsoleFile(content, packed, _CONTENT_TYPES[Path(name).suffix], etag, is_forever, headers)


@cache
def _files() -> ConsoleFiles:
    return ConsoleFiles()


def find_file(path: str) -> ConsoleFile | None:
    """Returns the console's file at a path. The first call loads all files."""
    return _files().find(path)
