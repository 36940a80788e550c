"""The glossary has one line for each noun of the code, and the code uses each noun for one thing."""

from __future__ import annotations

import ast
import functools
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from tests.code_rules.sources import PAGES, SOURCE
from tests.source import folder_of, is_folder
from tests.syntax import nodes
from windlass.core.words.naming import to_words
from windlass.families import registry

PAGE = PAGES["docs/glossary.md"]
MIGRATIONS = "\n".join(file.read_text() for file in sorted(folder_of("store/migrations").glob("*.sql")))


class Term(NamedTuple):
    name: str
    meaning: str
    classes: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()


def terms_of(page: str) -> list[Term]:
    terms: list[Term] = []
    for section in re.split(r"^## ", page, flags=re.M)[1:]:
        heading = re.search(r"^Folders: (.+)$", section, re.M)
        folders = tuple(re.findall(r"`([^`]+)`", heading[1])) if heading else ()
        for name, meaning, code in re.findall(r"^\| (?!Term|-)(.+?) \| (.+?) \|(.*)\|$", section, re.M):
            things = re.findall(r"`([^`]+)`", code)
            classes = tuple(thing for thing in things if thing[0].isupper())
            tables = tuple(thing for thing in things if thing[0].islower())
            terms.append(Term(name, meaning, classes, tables, folders))
    return terms


def classes_of(files: Mapping[str, str]) -> list[tuple[str, str]]:
    """Names of all classes with the file of each."""
    return [
        (node.name, file)
        for file, text in files.items()
        for node in nodes(text)
        if isinstance(node, ast.ClassDef)
    ]


def repeated(names: Iterable[str]) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]


def as_noun(name: str) -> str:
    """`ApiToken` → `api token`"""
    return to_words(name).casefold()


FILES = {name.partition("/src/windlass/")[2]: text for name, text in SOURCE.items()}
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


def test_each_glossary_term_and_each_meaning_appears_once():
    assert len(TERMS) > 80
    assert repeated(term.name.casefold() for term in TERMS) == []
    assert repeated(term.meaning.casefold() for term in TERMS) == []
    twice = terms_of("## One\n| engine | Runs workloads | |\n## Two\n| Engine | A motor | |\n")
    assert repeated(term.name.casefold() for term in twice) == ["engine"]


def misplaced(terms: Iterable[Term], known: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yields terms without a folder, and classes of terms that are in none of their folders."""
    files = defaultdict(list)
    for name, file in known:
        files[name].append(file)
    for term in terms:
        folders = tuple(f"{name}/" for name in term.folders)
        if not folders:
            yield f"{term.name}: its section names no folders"
        for name in term.folders:
            if not is_folder(name):
                yield f"{term.name}: there is no folder {name}"
        for name in term.classes:
            if not files[name]:
                yield f"{term.name}: there is no class {name}"
            yield from (
                f"{term.name}: {name} is in {file}" for file in files[name] if not file.startswith(folders)
            )


def test_classes_of_a_glossary_term_are_in_the_folders_of_its_section():
    assert [*misplaced(TERMS, classes())] == []


def test_the_check_reports_terms_whose_class_or_folder_is_missing_or_elsewhere():
    term = Term("engine", "Runs workloads", ("Engine", "Motor"), folders=("engines", "no/folder"))
    assert [*misplaced([term, Term("x", "y")], [("Engine", "api/engine.py")])] == [
        "engine: there is no folder no/folder",
        "engine: Engine is in api/engine.py",
        "engine: there is no class Motor",
        "x: its section names no folders",
    ]


def test_a_class_named_like_a_glossary_term_is_listed_for_that_term():
    assert strangers(TERMS, classes()) == []
    engine = Term("engine", "Runs workloads", ("Engine",))
    assert strangers([engine], [("Engine", "engines/engine.py")]) == []
    assert strangers([engine._replace(classes=("Docker",))], [("Engine", "search/engine.py")])


def test_every_family_is_listed_in_the_glossary():
    names = {spec for term in TERMS for spec in term.classes}
    assert sorted({family.spec.__name__ for family in registry().families.values()} - names) == []


def test_every_database_table_is_listed_once_in_the_glossary():
    tables = re.findall(r"CREATE TABLE (\w+)", MIGRATIONS)
    assert sorted(table for term in TERMS for table in term.tables) == sorted(tables)
