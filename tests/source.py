"""The source of all packages: the files, and where each folder is."""

from __future__ import annotations

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
_PORTIONS: Final = sorted((ROOT / "packages").glob("*/src/windlass"))
"""The folder of each package that contains its subpackages."""
SOURCES: Final = sorted(file for portion in _PORTIONS for file in portion.rglob("*.py"))


def folder_of(name: str) -> Path:
    """Returns a file or folder by its path in the namespace, such as `control/records`, in any package."""
    (found,) = (portion / name for portion in _PORTIONS if _is_there(portion / name))
    return found


def _is_there(path: Path) -> bool:
    """A folder that has moved to another package may be left with nothing but what Python has compiled."""
    return path.is_file() or (path.is_dir() and any(part.name != "__pycache__" for part in path.iterdir()))


def is_folder(name: str) -> bool:
    return any((portion / name).is_dir() and _is_there(portion / name) for portion in _PORTIONS)


def place(file: Path) -> str:
    """Returns where a file is, such as `control/records/names.py`."""
    (portion,) = (portion for portion in _PORTIONS if portion in file.parents)
    return file.relative_to(portion).as_posix()
