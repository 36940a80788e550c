"""The files of images that tests make of this machine's own programs, without a registry: Debian's static
busybox, and the Python that runs the tests."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Sequence
from pathlib import Path

USELESS = {"test", "tests", "idlelib", "tkinter", "ensurepip", "lib2to3", "site-packages", "dist-packages"}
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"


def box_files() -> bytes:
    """Returns the archive of a shell and the usual tools."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        add_tools(tar, busybox())
    return made.getvalue()


def python_files() -> bytes:
    """The same, with a copy of the Python that runs these tests."""
    interpreter = Path(sys.base_exec_prefix, "bin", f"python{VERSION}")
    library = Path(sysconfig.get_path("stdlib"))
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        add_tools(tar, busybox())
        tar.add(interpreter.resolve(), "usr/bin/python3")
        tar.add(library, f"usr/lib/python{VERSION}", filter=_needed)
        add_libraries(tar, [interpreter, *library.glob("lib-dynload/*.so")])
    return made.getvalue()


def busybox() -> Path:
    found = shutil.which("busybox")
    assert found, "busybox is not installed: apt-get install busybox-static"
    return Path(found)


def add_tools(tar: tarfile.TarFile, busybox: Path) -> None:
    names = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True).stdout.split()
    for folder in ("bin", "tmp", "etc", "proc", "var"):
        _folder(tar, folder, 0o1777 if folder == "tmp" else 0o755)
    tar.add(busybox.resolve(), "bin/busybox")
    add_text(tar, "etc/passwd", "root:x:0:0::/:/bin/sh\nshop:x:1000:1000::/:/bin/sh\n")
    for name in names:
        if name != "busybox":
            link = tarfile.TarInfo(f"bin/{name}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(link)


def add_libraries(tar: tarfile.TarFile, programs: Sequence[Path], but: Path | None = None) -> None:
    """Copies the libraries that the programs load to their own paths, except those in the folder `but`."""
    for needed in sorted(_libraries(programs)):
        if but is None or but not in needed.parents:
            tar.add(needed.resolve(), str(needed).lstrip("/"))


def add_text(tar: tarfile.TarFile, name: str, text: str) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(text)
    tar.addfile(entry, io.BytesIO(text.encode()))


def _needed(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    parts = Path(entry.name).parts[3:]
    return None if USELESS & set(parts) or any(part.startswith("config-") for part in parts) else entry


def _libraries(programs: Sequence[Path]) -> set[Path]:
    said = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=False).stdout
    return {Path(found) for found in re.findall(r"(?:=> |^\t)(/\S+) \(0x", said, re.MULTILINE)}


def _folder(tar: tarfile.TarFile, name: str, mode: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode = tarfile.DIRTYPE, mode
    tar.addfile(entry)
