"""Recognizes plain Python programs that listen: they read the port from the environment, or start a library's
server.

A program consists of the started file and the files of the repository that it imports.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from windlass.detect.known_files import KnownFiles
from windlass.detect.python_code import PythonFile

MAX_FILES: Final = 40
_COMMENT_PATTERN: Final = re.compile(r"^[ \t]*+#.*$", re.MULTILINE)
_IMPORT_PATTERN: Final = re.compile(
    r"^[ \t]*+(?:from[ \t]++(?P<dots>\.*+)(?P<module>[\w.]*+)[ \t]++import[ \t]++"
    r"\(?(?P<names>[\w, \t]{1,500}+)"
    r"|import[ \t]++(?P<modules>[\w., \t]{1,500}+))",
    re.MULTILINE,
)
_READS_PORT_PATTERN: Final = re.compile(
    r"(?:environ(?:\.get\(|\.setdefault\(|\[)|getenv\(|\b(?:env|config)(?:\.\w{1,20}+)?\()"
    r"[ \t\n]*+['\"]PORT['\"]"
)
_SERVER_PATTERN_TEXTS: Final = (
    ("", r"(?:HTTP|TCP|WSGI)Server[ \t]*+\("),
    ("", r"\b(?:make_server|start_server|run_app|TCPSite|run_simple)[ \t]*+\("),
    ("asyncio", r"\.create_server[ \t]*+\("),
    ("uvicorn", r"\buvicorn\.run[ \t]*+\("),
    ("cherrypy", r"\bcherrypy\.(?:quickstart|engine\.start)[ \t]*+\("),
    ("tornado", r"\.listen\([ \t]*+\w"),
    ("waitress", r"\bserve[ \t]*+\("),
    ("websockets", r"\bserve[ \t]*+\("),
)
"""The module that a file must import, and the call that starts the module's server."""
_SERVER_PATTERNS: Final = tuple((module, re.compile(pattern)) for module, pattern in _SERVER_PATTERN_TEXTS)
_PLACE_PATTERN: Final = re.compile(
    r"(?:,|\()[ \t\n]*+(?:['\"][\w.:]*+['\"]|None)[ \t\n]*+,[ \t\n]*+(\d{2,5})\b"
)
"""Matches the port after a host: `HTTPServer(("", 8000), …)`, `start_server(serve, "0.0.0.0", 8888)`."""
_LISTENS_PATTERN: Final = re.compile(r"\.listen\([ \t]*+(\d{2,5})\b")


class PythonServer(Struct, frozen=True):
    """A server that a program starts: its port, and the reason for the choice."""

    port: int
    reason: str


def server_of(files: KnownFiles, path: str) -> PythonServer | None:
    """Returns the server that a file starts when it is run. None if no server is recognized."""
    for file in _program_files(files, path):
        text = _COMMENT_PATTERN.sub("", file.text)
        if _READS_PORT_PATTERN.search(text):
            return PythonServer(file.served_port, f"{file.path} reads the variable PORT.")
        if any(
            (not module or file.imports(module)) and call.search(text) for module, call in _SERVER_PATTERNS
        ):
            return PythonServer(_port_of(file, text), f"{file.path} starts a server.")
    return None


def program_file(files: KnownFiles, module: str) -> str:
    """Returns the path of a module in the top folder or in `src`; empty if the file does not exist."""
    path = module.replace(".", "/")
    return files.has(
        *(f"{top}{path}{end}" for top in ("", "src/") for end in (".py", "/__main__.py", "/__init__.py"))
    )


def _port_of(file: PythonFile, text: str) -> int:
    match = _PLACE_PATTERN.search(text) or _LISTENS_PATTERN.search(text)
    number = int(match[1]) if match else 0
    return number if 0 < number < 2**16 else file.served_port


def _program_files(files: KnownFiles, path: str) -> Iterator[PythonFile]:
    """Yields the file, and all files of the repository that it imports."""
    ahead = [path]
    for name in ahead:
        file = PythonFile(name, files.text(name))
        yield file
        for module in dict.fromkeys(_imports(file)):
            inner = program_file(files, module)
            if inner and inner not in ahead and len(ahead) < MAX_FILES:
                ahead.append(inner)


def _imports(file: PythonFile) -> Iterator[str]:
    """Yields the absolute names that a file may import: modules, and names inside modules."""
    package = file.path.removeprefix("src/").split("/")[:-1]
    for match in _IMPORT_PATTERN.finditer(file.text):
        if match["modules"]:
            yield from (part.split()[0] for part in match["modules"].split(",") if part.split())
            continue
        up = len(match["dots"])
        parents = package[: len(package) - up + 1] if up else []
        module = ".".join(filter(None, [*parents, match["module"]]))
        yield module
        names = [part.split()[0] for part in match["names"].split(",") if part.split()]
        yield from (f"{module}.{name}".strip(".") for name in names)
