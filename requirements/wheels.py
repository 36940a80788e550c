"""Writes wheel_table.py of the package detect: which CPythons have wheels for versions of compiled packages.

Reads the index that pip is configured with, or else PyPI, and only wheels for Linux on x86-64 with glibc.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import textwrap
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

PACKAGES = [
    "aiohttp",
    "argon2-cffi-bindings",
    "asyncpg",
    "bcrypt",
    "bitarray",
    "blis",
    "brotli",
    "cchardet",
    "cffi",
    "confluent-kafka",
    "contourpy",
    "cryptography",
    "cymem",
    "cython",
    "duckdb",
    "faiss-cpu",
    "fiona",
    "frozenlist",
    "gevent",
    "google-crc32c",
    "greenlet",
    "grpcio",
    "grpcio-tools",
    "h5py",
    "hiredis",
    "httptools",
    "jiter",
    "kiwisolver",
    "levenshtein",
    "lightgbm",
    "llvmlite",
    "lxml",
    "lz4",
    "matplotlib",
    "murmurhash",
    "multidict",
    "netifaces",
    "numba",
    "numexpr",
    "numpy",
    "onnxruntime",
    "opencv-python",
    "opencv-python-headless",
    "orjson",
    "pandas",
    "pillow",
    "preshed",
    "psutil",
    "psycopg-binary",
    "psycopg2-binary",
    "pyarrow",
    "pycryptodome",
    "pydantic-core",
    "pymssql",
    "pymupdf",
    "pynacl",
    "pyodbc",
    "pyproj",
    "python-snappy",
    "pyyaml",
    "pyzmq",
    "rapidfuzz",
    "rasterio",
    "regex",
    "reportlab",
    "rpds-py",
    "ruamel-yaml-clib",
    "safetensors",
    "scikit-image",
    "scikit-learn",
    "scipy",
    "sentencepiece",
    "setproctitle",
    "shapely",
    "spacy",
    "srsly",
    "statsmodels",
    "tensorflow",
    "thinc",
    "tiktoken",
    "tokenizers",
    "torch",
    "torchvision",
    "ujson",
    "uvloop",
    "xxhash",
    "yarl",
    "zope-interface",
    "zstandard",
]
"""Packages whose sources need a compiler. Those that do without their compiled part are left out."""
OLDEST = 6
"""The oldest minor version of CPython that the table knows."""
TABLE = Path(__file__).parent.parent / "packages/detect/src/windlass/detect/wheel_table.py"
_WHEEL = re.compile(
    r"[^-]+-(?P<version>\d+(?:\.\d+)*)(?:\.post\d+)?(?:-\d\w*)?-(?P<pythons>[^-]+)-(?P<abis>[^-]+)-(?P<places>[^-]+)"
    r"\.whl"
)
_SOURCE = re.compile(r".+-(?P<version>\d+(?:\.\d+)*)(?:\.post\d+)?\.(?:tar\.gz|zip)")
_CPYTHON = re.compile(r"cp3(\d+)")

Version = tuple[int, ...]
Minors = tuple[int, int]
"""The oldest and the newest minor version with a wheel; 0 is no limit."""


def main() -> int:
    with ThreadPoolExecutor(8) as threads:
        table = dict(zip(PACKAGES, map(rows_of, threads.map(names_of, PACKAGES)), strict=True))
    newest = max(newest for rows in table.values() for _, _, newest in rows)
    TABLE.write_text("\n".join(lines_of(table, newest)) + "\n")
    return subprocess.run([sys.executable, "-m", "ruff", "format", "--quiet", TABLE], check=False).returncode


def rows_of(names: Iterable[str]) -> list[tuple[Version, int, int]]:
    """Returns the first version of each range of versions with the same CPythons, by the names of its
    files."""
    return list(_merge(minors_by_version(names)))


def minors_by_version(names: Iterable[str]) -> dict[Version, Minors]:
    """Returns the CPythons of each version with a source or a wheel. (0, 0) is no limit."""
    wheels: dict[Version, list[Minors]] = {}
    for name in names:
        if match := _WHEEL.fullmatch(name):
            pythons = list(_pythons_of(match["pythons"], match["abis"], match["places"]))
            wheels.setdefault(_numbers(match["version"]), []).extend(pythons)
        elif match := _SOURCE.fullmatch(name):
            wheels.setdefault(_numbers(match["version"]), [])
    return {version: _whole(minors) for version, minors in wheels.items()}


def _pythons_of(pythons: str, abis: str, places: str) -> Iterator[Minors]:
    if places != "any" and not re.search(r"(?:manylinux|linux)\w*x86_64", places):
        return
    minors = [int(number) for number in _CPYTHON.findall(pythons)]
    if "abi3" in abis:
        yield min(minors, default=OLDEST), 0
    elif "none" in abis and re.search(r"py3|py2\.py3", pythons):
        yield 0, 0
    elif re.fullmatch(r"cp3\d+m?", abis) or (abis == "none" and minors):
        yield from ((minor, minor) for minor in minors)


def _whole(minors: list[Minors]) -> Minors:
    """Returns the oldest and newest of all wheels of a version."""
    if not minors or any(newest == 0 == oldest for oldest, newest in minors):
        return 0, 0
    newest = 0 if any(newest == 0 for _, newest in minors) else max(newest for _, newest in minors)
    return max(OLDEST, min(oldest for oldest, _ in minors)), newest


def _merge(versions: dict[Version, Minors]) -> Iterator[tuple[Version, int, int]]:
    former: Minors = (0, 0)
    for version, minors in sorted(versions.items()):
        if minors[1] and minors[1] < OLDEST:
            minors = OLDEST, OLDEST
        if minors != former:
            yield version, *minors
        former = minors


def names_of(package: str) -> list[str]:
    request = urllib.request.Request(
        f"{index()}/{package}/", headers={"Accept": "application/vnd.pypi.simple.v1+json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            content: dict[str, Any] = json.load(answer)
    except urllib.error.HTTPError as error:
        print(f"{package}: {error}", file=sys.stderr)
        return []
    return [file["filename"] for file in content["files"]]


def index() -> str:
    shown = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], check=True, capture_output=True, text=True
    ).stdout
    named = re.search(r"^(?:global|:env:)\.index-url='([^']+)'", shown, re.MULTILINE)
    return (named[1] if named else "https://pypi.org/simple").rstrip("/")


def _numbers(version: str) -> Version:
    numbers = [int(part) for part in version.split(".")]
    while len(numbers) > 1 and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)


def lines_of(table: dict[str, list[tuple[Version, int, int]]], newest: int) -> Iterator[str]:
    yield '"""Wheels of compiled packages by CPython. Written by `make wheels`; do not edit it."""'
    yield "\nfrom __future__ import annotations\n\nfrom typing import Final\n"
    yield f"NEWEST: Final = {newest}"
    yield '"""The newest minor version of CPython that any of these packages has a wheel for."""\n'
    yield "WHEELS: Final[dict[str, str]] = {"
    for package, rows in sorted(table.items()):
        if any(newest for _, _, newest in rows):
            yield f'    "{package}": ('
            # Spaces end the lines: adjacent texts are one.
            yield from (f'        "{line} "' for line in textwrap.wrap(" ".join(map(_text, rows)), 95))
            yield "    ),"
    yield "}"
    yield '"""By package: the first version of each range, with the oldest and the newest minor version that'
    yield 'has a wheel, such as 1.24=8-11. 0 is no limit."""'


def _text(row: tuple[Version, int, int]) -> str:
    version, oldest, newest = row
    return f"{'.'.join(map(str, version))}={oldest}-{newest}"


if __name__ == "__main__":
    sys.exit(main())
