"""Converts Pipfile and Pipfile.lock to lines of a requirements file that installs the same packages as
`pipenv install --deploy`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from windlass.base.foreign_json import read_json
from windlass.base.toml import parse_toml
from windlass.builders.builder import BuildError
from windlass.builders.small_files import read_small

LOCK_FILE: Final = "Pipfile.lock"
PIPFILE: Final = "Pipfile"
_VERSION_CONTROL_SYSTEMS: Final = ("git", "hg", "svn", "bzr")


def pipfile_lines(folder: Path) -> list[str]:
    """Returns the requirements in Pipfile.lock or, if it does not exist, in Pipfile."""
    if (folder / LOCK_FILE).is_file():
        content = _read(folder / LOCK_FILE, lambda text: read_json(text, object))
        listed, sources = content.get("default"), _table(content.get("_meta")).get("sources")
    else:
        content = _read(folder / PIPFILE, lambda text: parse_toml(text.decode("utf-8-sig")))
        listed, sources = content.get("packages"), content.get("source")
    entries = {name: entry for name, entry in _table(listed).items() if name}
    with_hashes = bool(entries) and all(_hashes(entry) for entry in entries.values())
    lines = [_line(name, entry, with_hashes=with_hashes) for name, entry in entries.items()]
    return [*_indexes(sources), *lines]


def _read(file: Path, decode: Any) -> dict[str, Any]:
    try:
        content = decode(read_small(file))
    except ValueError as error:
        raise BuildError(f"Fix {file.name}, which cannot be read: {error}.") from error
    return _table(content)


def _table(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _indexes(sources: object) -> Iterator[str]:
    """Yields pip options for the registries other than pypi.org."""
    urls = [_table(source).get("url") for source in sources] if isinstance(sources, list) else []
    others = [url for url in urls if isinstance(url, str) and not url.startswith("https://pypi.org/")]
    for place, url in enumerate(others):
        is_only = len(urls) == len(others) and place == 0
        yield f"--index-url {_word(url)}" if is_only else f"--extra-index-url {_word(url)}"


def _hashes(entry: object) -> list[str]:
    hashes = _table(entry).get("hashes")
    return [text for text in hashes if isinstance(text, str)] if isinstance(hashes, list) else []


def _line(name: str, entry: object, *, with_hashes: bool) -> str:
    if isinstance(entry, str):
        return f"{_word(name)}{_version(entry)}"
    named = _table(entry)
    extras = named.get("extras")
    chosen = f"[{','.join(map(_word, map(str, extras)))}]" if isinstance(extras, list) and extras else ""
    marker = named.get("markers")
    condition = f" ; {_text(marker)}" if isinstance(marker, str) and marker else ""
    if place := _direct_source(named):
        is_path = place.startswith(".") or "path" in named
        return f"{place}{chosen}" if is_path else f"{_word(name)}{chosen} @ {place}{condition}"
    hashes = "".join(f" --hash={_word(text)}" for text in _hashes(entry)) if with_hashes else ""
    return f"{_word(name)}{chosen}{_version(named.get('version'))}{condition}{hashes}"


def _direct_source(named: dict[str, Any]) -> str:
    """Returns the address or path of a package that is not in a registry, or an empty string."""
    for system in _VERSION_CONTROL_SYSTEMS:
        if isinstance(url := named.get(system), str):
            ref = named.get("ref")
            return f"{system}+{_word(url)}" + (f"@{_word(ref)}" if isinstance(ref, str) else "")
    place = named.get("path", named.get("file", ""))
    return _word(place) if isinstance(place, str) else ""


def _version(version: object) -> str:
    return "" if not isinstance(version, str) or version.strip() in ("", "*") else _word(version)


def _word(text: str) -> str:
    """Returns the text without whitespace, which would begin another word or line."""
    return "".join(text.split())


def _text(text: str) -> str:
    return " ".join(text.split())
