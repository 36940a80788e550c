"""The glossary has one line for each noun of the code, and the code uses each noun for one thing."""

from __future__ import annotations

import ast
import functools
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.syntax import parsed
from windlass.core.words.naming import to_words
from windlass.families import registry

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src/windlass"
EXAMPLE = SOURCES / "demo/application"
"""A user's application."""
PAGE = (ROOT / "docs/glossary.md").read_text()
MIGRATIONS = "\n".join(file.read_text() for file in sorted((SOURCES / "store/migrations").glob("*.sql")))

FORBIDDEN = frozenset(
    re.findall(
        r"\w+",
        "anew book census courier deed fate gate lane life nobody nursery seal shelf somebody told trail "
        "wanted whence whereabouts whoever witness",
    )
)
"""Metaphors and participles that the code used as nouns once."""


class Term(NamedTuple):
    name: str
    meaning: str
    classes: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    rooms: tuple[str, ...] = ()


def terms_of(page: str) -> list[Term]:
    terms: list[Term] = []
    for section in re.split(r"^## ", page, flags=re.M)[1:]:
        heading = re.search(r"^Rooms: (.+)$", section, re.M)
        rooms = tuple(re.findall(r"`([^`]+)`", heading[1])) if heading else ()
        for name, meaning, code in re.findall(r"^\| (?!Term|-)(.+?) \| (.+?) \|(.*)\|$", section, re.M):
            things = re.findall(r"`([^`]+)`", code)
            classes = tuple(thing for thing in things if thing[0].isupper())
            tables = tuple(thing for thing in things if thing[0].islower())
            terms.append(Term(name, meaning, classes, tables, rooms))
    return terms


def classes_of(files: Mapping[str, str]) -> list[tuple[str, str]]:
    """Names of all classes with the file of each."""
    return [
        (node.name, file)
        for file, text in files.items()
        for node in ast.walk(parsed(text))
        if isinstance(node, ast.ClassDef)
    ]


def repeated(names: Iterable[str]) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]


def as_noun(name: str) -> str:
    """`ApiToken` → `api token`"""
    return to_words(name).casefold()


FILES = {
    file.relative_to(SOURCES).as_posix(): file.read_text()
    for file in sorted(SOURCES.rglob("*.py"))
    if EXAMPLE not in file.parents
}
TERMS = terms_of(PAGE)


@functools.cache
def classes() -> list[tuple[str, str]]:
    return classes_of(FILES)


def strangers(terms: Iterable[Term], known: Iterable[tuple[str, str]]) -> list[str]:
    """Classes that are called like a term, and that the term's line does not name."""
    lines = {term.name.casefold(): term for term in terms}
    return [
        f"{name} in {file}"
        for name, file in known
        if (term := lines.get(as_noun(name))) is not None and name not in term.classes
    ]


def shared(known: Iterable[tuple[str, str]]) -> list[str]:
    """Returns names of several classes. A private class has its own name, too."""
    return repeated(name.lstrip("_") for name, _ in known)


def test_no_two_classes_share_a_name():
    assert shared(classes()) == []
    assert shared(classes_of({"a.py": "class Queue: ...", "b.py": "class Queue: ..."})) == ["Queue"]
    assert shared(classes_of({"a.py": "class Queue: ...", "b.py": "class _Queue: ..."})) == ["Queue"]


def test_a_term_stands_once_with_one_meaning():
    assert len(TERMS) > 80
    assert repeated(term.name.casefold() for term in TERMS) == []
    assert repeated(term.meaning.casefold() for term in TERMS) == []
    twice = terms_of("## One\n| engine | Runs workloads | |\n## Two\n| Engine | A motor | |\n")
    assert repeated(term.name.casefold() for term in twice) == ["engine"]


@pytest.mark.parametrize("term", TERMS, ids=[term.name for term in TERMS])
def test_the_classes_of_a_term_are_in_its_rooms(term: Term):
    assert term.rooms
    for room in term.rooms:
        assert (SOURCES / room).is_dir()
    for name in term.classes:
        files = [file for known, file in classes() if known == name]
        assert files, f"there is no class {name}"
        assert all(file.startswith(tuple(f"{room}/" for room in term.rooms)) for file in files), files


def test_a_class_that_is_called_like_a_term_has_its_meaning():
    assert strangers(TERMS, classes()) == []
    engine = Term("engine", "Runs workloads", ("Engine",))
    assert strangers([engine], [("Engine", "engines/engine.py")]) == []
    assert strangers([engine._replace(classes=("Docker",))], [("Engine", "search/engine.py")])


def test_every_family_has_a_line():
    names = {spec for term in TERMS for spec in term.classes}
    assert sorted({family.spec.__name__ for family in registry().families.values()} - names) == []


def test_every_table_of_the_store_is_in_one_line():
    tables = re.findall(r"CREATE TABLE (\w+)", MIGRATIONS)
    assert sorted(table for term in TERMS for table in term.tables) == sorted(tables)


METAPHORS = FORBIDDEN & {
    *("anew", "census", "courier", "deed", "fate", "nursery", "shelf", "somebody"),
    *("whence", "whereabouts", "whoever", "witness"),
}


def named_by_a_metaphor(text: str) -> list[str]:
    """Returns functions, parameters, variables and attributes with such a word in their name."""
    names: list[str] = []
    for node in ast.walk(parsed(text)):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.arg(arg=name):
                names.append(name)
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                names.append(name)
    return [name for name in names if METAPHORS & {*to_words(name).replace("_", " ").split()}]


@pytest.mark.parametrize(
    "text", ["def f(shelf): ...", "self._witness = 1", "def _anew(): ...", "lost_deed = 1"]
)
def test_a_name_that_is_a_metaphor_is_found(text: str):
    assert len(named_by_a_metaphor(text)) == 1
    assert named_by_a_metaphor("def shelve(record): ...") == []


def test_no_function_or_variable_is_named_by_a_metaphor():
    assert [(file, names) for file, text in FILES.items() if (names := named_by_a_metaphor(text))] == []


def test_no_line_uses_a_forbidden_word():
    words = set(re.findall(r"[a-z]+", " ".join(f"{term.name} {term.meaning}" for term in TERMS).casefold()))
    assert sorted(words & FORBIDDEN) == []
    assert FORBIDDEN & {"courier"}
