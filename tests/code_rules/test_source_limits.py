"""Limits of the source: broad excepts are rare and have a reason, and files are short."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.source import ROOT, SOURCES, place
from tests.syntax import nodes

TESTS = ROOT / "tests"
PACKAGES = ROOT / "packages"
MOST_BROAD = 24
MOST_LINES = 600


def broad_excepts(source: str) -> Iterator[int]:
    """Yields the lines of handlers that catch every exception."""
    for node in nodes(source):
        if isinstance(node, ast.ExceptHandler) and _is_broad(node.type):
            yield node.lineno


def _is_broad(caught: ast.expr | None) -> bool:
    match caught:
        case None | ast.Name(id="Exception" | "BaseException"):
            return True
        case ast.Attribute(attr="Exception" | "BaseException"):
            return True
        case ast.Tuple(elts=kinds):
            return any(map(_is_broad, kinds))
    return False


def has_reason(line: str) -> bool:
    """True if the line has a comment that says more than which rule it ignores."""
    comment = line.partition("#")[2].removeprefix(" noqa: BLE001").strip(" ()-")
    return len(comment.split()) >= 3


def found() -> Iterator[tuple[str, str]]:
    """Yields each broad except of the product: its place and its line."""
    for path in SOURCES:
        source = path.read_text()
        lines = source.splitlines()
        for number in broad_excepts(source):
            yield f"{place(path)}:{number}", lines[number - 1]


def test_broad_excepts_are_rare() -> None:
    places = [place for place, _ in found()]
    assert len(places) <= MOST_BROAD, "\n".join(places)


def test_broad_excepts_have_their_reason_on_their_line() -> None:
    places = [place for place, line in found() if not has_reason(line)]
    assert not places, "\n".join(places)


def test_the_check_counts_every_form_of_a_broad_except_and_no_narrow_one() -> None:
    def is_counted(handler: str) -> bool:
        return [*broad_excepts(f"try:\n    f()\n{handler}\n    pass")] == [3]

    broad = (
        "except:",
        "except Exception:",
        "except BaseException as e:",
        "except (OSError, Exception):",
        "except builtins.Exception:",
        "except* Exception:",
    )
    narrow = ("except OSError:", "except (OSError, ValueError):", "except ExceptionGroup:")
    assert [*map(is_counted, broad + narrow)] == [True] * len(broad) + [False] * len(narrow)


def test_a_noqa_code_without_a_text_is_no_reason_for_a_broad_except() -> None:
    without = ("except Exception:", "except Exception:  # noqa: BLE001", "except Exception:  # why")
    assert not any(map(has_reason, without))
    assert has_reason("except Exception:  # noqa: BLE001 - the loop outlives its items")


def long_files(folder: Path) -> list[str]:
    return [
        f"{file.relative_to(folder)}: {count} lines"
        for file in sorted(folder.rglob("*.py"))
        if (count := len(file.read_text().splitlines())) > MOST_LINES
    ]


def test_files_have_at_most_600_lines() -> None:
    assert long_files(PACKAGES) + long_files(TESTS) == []


def test_a_file_of_601_lines_is_found(tmp_path: Path) -> None:
    (tmp_path / "long.py").write_text("pass\n" * 601)
    (tmp_path / "short.py").write_text("pass\n" * 600)
    assert long_files(tmp_path) == ["long.py: 601 lines"]
