"""Limits of the source: broad excepts are rare and have a reason, and files are short."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import windlass
from tests.syntax import parsed

ROOT = Path(windlass.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
MOST_BROAD = 20
MOST_LINES = 350


def broad_excepts(source: str) -> Iterator[int]:
    """Yields the lines of handlers that catch every exception."""
    for node in ast.walk(parsed(source)):
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
    for path in FILES:
        source = path.read_text()
        lines = source.splitlines()
        for number in broad_excepts(source):
            yield f"{path.relative_to(ROOT)}:{number}", lines[number - 1]


def test_broad_excepts_are_rare() -> None:
    places = [place for place, _ in found()]
    assert len(places) <= MOST_BROAD, "\n".join(places)


def test_broad_excepts_have_their_reason_on_their_line() -> None:
    places = [place for place, line in found() if not has_reason(line)]
    assert not places, "\n".join(places)


@pytest.mark.parametrize(
    "handler",
    [
        "except:",
        "except Exception:",
        "except BaseException as e:",
        "except (OSError, Exception):",
        "except builtins.Exception:",
        "except* Exception:",
    ],
)
def test_each_way_to_catch_everything_is_found(handler: str) -> None:
    assert [*broad_excepts(f"try:\n    f()\n{handler}\n    pass")] == [3]


@pytest.mark.parametrize(
    "handler", ["except OSError:", "except (OSError, ValueError):", "except ExceptionGroup:"]
)
def test_a_narrow_except_is_not_counted(handler: str) -> None:
    assert not [*broad_excepts(f"try:\n    f()\n{handler}\n    pass")]


@pytest.mark.parametrize(
    "line", ["except Exception:", "except Exception:  # noqa: BLE001", "except Exception:  # why"]
)
def test_the_name_of_a_rule_is_not_a_reason(line: str) -> None:
    assert not has_reason(line)


def too_long(path: Path) -> bool:
    return len(path.read_text().splitlines()) > MOST_LINES


def test_files_have_at_most_350_lines() -> None:
    assert {str(path.relative_to(ROOT)) for path in FILES if too_long(path)} == set()


def test_a_file_of_351_lines_is_found(tmp_path: Path) -> None:
    path = tmp_path / "long.py"
    path.write_text("pass\n" * 351)
    assert too_long(path)


TESTS = Path(__file__).parents[1]
MOST_LINES_OF_A_TEST_MODULE = 400


def long_modules(folder: Path) -> set[str]:
    return {
        str(path.relative_to(folder))
        for path in folder.rglob("*.py")
        if len(path.read_text().splitlines()) > MOST_LINES_OF_A_TEST_MODULE
    }


def test_modules_of_tests_have_at_most_400_lines() -> None:
    assert long_modules(TESTS) == set()


def test_a_test_module_of_401_lines_is_found(tmp_path: Path) -> None:
    (tmp_path / "test_long.py").write_text("pass\n" * 401)
    (tmp_path / "test_short.py").write_text("pass\n" * 400)
    assert long_modules(tmp_path) == {"test_long.py"}
