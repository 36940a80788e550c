"""The product asks the registry or a kind, and does not compare with the name of a family.

A family may be named in its own file, in its kind and in its behaviour: a module that registers the behaviour
or a handler of the family. Everywhere else a comparison would be a list that the next family is missing from.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from typing import NamedTuple

from tests.source import SOURCES, folder_of, place
from tests.syntax import nodes, parsed
from windlass.core.declare.resource import Family
from windlass.families import registry

FAMILIES = registry().families
SQL = re.compile(r"\bfamily\s*(?:=|<>|!=|IN\s*\()\s*((?:'\w+'(?:\s*,\s*)?)+)", re.IGNORECASE)
REGISTERS = {"reads", "writes", "prepares"}


class Comparison(NamedTuple):
    file: str
    line: int
    family: str


def found_in(source: str, file: str) -> Iterator[Comparison]:
    """The comparisons with families that are none of the module's own."""
    tree = parsed(source)
    names = _imported(tree)
    own = _own(tree, names)
    for node in ast.walk(tree):
        for family in _compared(node, names):
            if family not in own:
                yield Comparison(file, getattr(node, "lineno", 0), family)


def _imported(tree: ast.AST) -> dict[str, set[str]]:
    """By the name of a variable: the families that it is, or of which it is the spec."""
    found: dict[str, set[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and ".families." in (node.module or ""):
            module = importlib.import_module(node.module or "")
            for alias in node.names:
                thing = getattr(module, alias.name, None)
                of = {name for name, family in FAMILIES.items() if thing in (family, family.spec)}
                found[alias.asname or alias.name] = of
    return found


def _own(tree: ast.AST, names: dict[str, set[str]]) -> set[str]:
    own: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="Family"), args=[ast.Constant(value=str(name)), *_]):
                own.add(name)
            case ast.Call(func=ast.Name(id="behaves"), args=families):
                own |= {name for one in families for name in _named(one, names)}
            case ast.Call(func=ast.Name(id=word), args=handlers) if word in REGISTERS:
                own |= {str(one.value).partition(".")[0] for one in handlers if isinstance(one, ast.Constant)}
            case ast.ClassDef(
                bases=[ast.Subscript(value=ast.Name(id="ProgramKind" | "ServiceKind"))], body=body
            ):
                own |= {name for one in body for name in _kind_of(one, names)}
    return own


def _kind_of(statement: ast.stmt, names: dict[str, set[str]]) -> set[str]:
    match statement:
        case ast.Assign(targets=[ast.Name(id="family")], value=value):
            return _named(value, names)
    return set()


def _compared(node: ast.AST, names: dict[str, set[str]]) -> set[str]:
    match node:
        case ast.Compare(left=left, comparators=others):
            return {name for one in (left, *others) for name in _named(one, names)}
        case ast.MatchValue(value=value):
            return _named(value, names)
        case ast.Call(func=ast.Name(id="isinstance" | "issubclass"), args=[_, types]):
            return _named(types, names)
        case ast.Constant(value=str(text)):
            words = [word for found in SQL.findall(text) for word in re.findall(r"\w+", found)]
            return FAMILIES.keys() & set(words)
    return set()


def _named(value: ast.expr, names: dict[str, set[str]]) -> set[str]:
    match value:
        case ast.Constant(value=str(text)) if text in FAMILIES:
            return {text}
        case ast.Name(id=name):
            return names.get(name, set())
        case ast.Attribute(value=ast.Name(id=name), attr="name"):
            return names.get(name, set())
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
            return {name for one in parts for name in _named(one, names)}
    return set()


def modules() -> list[str]:
    return [place(file) for file in SOURCES]


def test_no_module_compares_with_a_family_that_is_not_its_own() -> None:
    found = [one for file in modules() for one in found_in(folder_of(file).read_text(), file)]
    assert not found, "\n".join(f"{one.file}:{one.line} compares with {one.family}" for one in found)


IMPORTS = "from windlass.families.application import Application, application\n"
COMPARISONS = (
    'row.family == "application"',
    'row.family in {"database", "x"}',
    'row.family not in ("x", "database")',
    "row.family != application.name",
    "draft.family is application",
    "isinstance(spec, Application)",
    "if_ = 1\nmatch row.family:\n    case 'application':\n        pass",
    "QUERY = \"SELECT 1 FROM resource WHERE family = 'application'\"",
    "QUERY = \"SELECT 1 FROM resource WHERE resource.family IN ('secret', 'database')\"",
)
OWN_MODULES = (
    "@behaves(application)\nclass Behaviour: ...",
    '@reads("application.status")\nasync def read(): ...',
    "class Kind(ServiceKind[Application]):\n    family = application",
    'application = Family("application", Application)',
)


def test_the_check_finds_each_form_of_a_comparison_with_a_family_name() -> None:
    missed = [line for line in COMPARISONS if not [*found_in(f"{IMPORTS}{line}\n", "control/anywhere.py")]]
    assert missed == []


def test_comparisons_with_a_familys_name_are_allowed_in_its_own_modules() -> None:
    compares = 'yes = row.family == "application"'
    wrong = [
        text for text in OWN_MODULES if [*found_in(f"{IMPORTS}{text}\n{compares}\n", "control/anywhere.py")]
    ]
    assert wrong == []


def derived_capitals(source: str) -> Iterator[int]:
    """Yields lines that put the name of a family in capitals: `row.family.upper()`, `family.name.upper()`."""
    for node in nodes(source):
        match node:
            case ast.Call(func=ast.Attribute(value=name, attr="upper")):
                if re.search(r"family(\.name)?\)?$", ast.unparse(name)):
                    yield node.lineno


def test_only_family_enum_value_derives_a_family_name_in_capitals() -> None:
    lines = [(file, line) for file in modules() for line in derived_capitals(folder_of(file).read_text())]
    assert lines == [], "use Family.enum_value or naming.enum_value"


def test_the_search_finds_derivations_of_a_family_name_in_capitals() -> None:
    names = ("row.family", "family.name", "snake(family)", "event.row.family.name")
    assert [name for name in names if [*derived_capitals(f"x = {name}.upper()")] != [1]] == []


def test_the_search_covers_every_family() -> None:
    assert all(isinstance(family, Family) for family in FAMILIES.values())
    assert len(FAMILIES) > 10
