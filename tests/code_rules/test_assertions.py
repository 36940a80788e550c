"""Every test asserts something: it does so itself, or through a helper that does, read from the source."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.syntax import parsed

FOLDER = Path(__file__).parents[1]
SETUP = "tests.world"
"""Asserts there that what a test needs was made, which is not what the test promises."""
FAILING = frozenset({"fail", "raises", "warns", "timeout", "assert_outcomes", "fnmatch_lines"}) | {
    "to_be_disabled",
    "to_be_enabled",
    "to_be_visible",
    "to_contain_text",
    "to_have_count",
    "to_have_text",
}
"""Calls that fail a test: those of pytest and of Playwright, and a wait that has an end."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Module:
    """The functions of one module of tests, and where its names come from."""

    def __init__(self, name: str, source: str) -> None:
        self.name = name
        tree = parsed(source)
        self.functions = {node.name: node for node in tree.body if isinstance(node, Function)}
        self.methods = [
            node
            for kind in ast.walk(tree)
            if isinstance(kind, ast.ClassDef)
            for node in kind.body
            if isinstance(node, Function)
        ]
        self.imported = {
            alias.asname or alias.name: (node.module or "", alias.name)
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }

    def tests(self) -> Iterator[Function]:
        for node in (*self.functions.values(), *self.methods):
            if node.name.startswith("test_") and not _is_fixture(node):
                yield node


class Suite:
    """All modules of tests, and which of their functions assert."""

    def __init__(self, sources: Mapping[str, str]) -> None:
        self._modules = {name: Module(name, source) for name, source in sources.items()}
        self._methods: dict[str, list[tuple[Module, Function]]] = defaultdict(list)
        for module in self._modules.values():
            for method in module.methods:
                self._methods[method.name].append((module, method))
        self._known: dict[int, bool] = {}

    def without_assertion(self) -> Iterator[str]:
        """Yields each test that reaches no assertion."""
        for module in self._modules.values():
            for test in module.tests():
                if not self._asserts(module, test):
                    yield f"{module.name}:{test.lineno} {test.name}"

    def _asserts(self, module: Module, function: Function) -> bool:
        if module.name == SETUP:
            return False
        if id(function) not in self._known:
            self._known[id(function)] = False  # it may call itself
            self._known[id(function)] = any(map(_fails, ast.walk(function))) or any(
                self._asserts(*helper) for helper in self._helpers(module, function)
            )
        return self._known[id(function)]

    def _helpers(self, module: Module, function: Function) -> Iterator[tuple[Module, Function]]:
        """Yields functions of the tests that it names, and methods that it calls.

        A method is taken if every method of its name asserts, in this module if there is one: its class is
        not known.
        """
        for node in ast.walk(function):
            match node:
                case ast.Name(id=name):
                    yield from self._named(module, name)
                case ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr=name)) if (
                    owner in module.imported
                ):
                    yield from self._named_in(".".join(module.imported[owner]), name)
                case ast.Call(func=ast.Attribute(attr=name)):
                    everywhere = self._methods[name]
                    methods = [method for method in everywhere if method[0] is module] or everywhere
                    if all(self._asserts(*method) for method in methods):
                        yield from methods

    def _named(self, module: Module, name: str) -> Iterator[tuple[Module, Function]]:
        if name in module.functions and not _is_fixture(module.functions[name]):
            yield module, module.functions[name]
        elif name in module.imported:
            yield from self._named_in(*module.imported[name])

    def _named_in(self, module: str, name: str) -> Iterator[tuple[Module, Function]]:
        if module in self._modules:
            yield from self._named(self._modules[module], name)


def _fails(node: ast.AST) -> bool:
    match node:
        case ast.Assert() | ast.Raise(exc=ast.Call(func=ast.Name(id="AssertionError"))):
            return True
        case ast.Call(func=ast.Attribute(attr=name)):
            return name in FAILING
    return False


def _is_fixture(function: Function) -> bool:
    return any("fixture" in ast.unparse(decorator) for decorator in function.decorator_list)


def sources() -> dict[str, str]:
    return {
        ".".join(path.relative_to(FOLDER.parent).with_suffix("").parts): path.read_text()
        for path in sorted(FOLDER.rglob("*.py"))
    }


def test_every_test_asserts_something():
    assert [*Suite(sources()).without_assertion()] == []


HELPERS = """
def check(value): assert value
def make(value): return value
class Station:
    async def hears(self): assert self.said
    async def apply(self): return 1
"""


def missing(test: str) -> list[str]:
    text = f"from tests.helpers import check, make, Station\nfrom tests import helpers\n{test}"
    return [*Suite({"tests.helpers": HELPERS, "tests.test_it": text}).without_assertion()]


def test_an_assertion_in_a_called_helper_counts():
    for body in (
        "assert make(1)",
        "check(make(1))",
        "helpers.check(1)",
        "Station().hears()",
        "every(check)",
        "pytest.raises(ValueError, make, 1)",
        "own()",  # a function of the same module
    ):
        assert missing(f"def own(): check(1)\ndef test_it(): {body}") == []


def test_a_test_without_an_assertion_is_found():
    for body in ("make(1)", "Station().apply()", "helpers.make(1)", "own(check_later)", "test_it()"):
        assert missing(f"def own(): make(1)\ndef test_it(): {body}") == ["tests.test_it:4 test_it"]


def test_a_fixture_that_asserts_is_no_assertion_of_its_tests():
    fixture = "@pytest.fixture\ndef ready(): assert made()\n"
    assert missing(f"{fixture}def test_it(ready): make(ready)") == ["tests.test_it:5 test_it"]


def test_an_assertion_in_setup_code_does_not_count():
    texts = {SETUP: "def make_world(): assert 1", "tests.test_it": f"from {SETUP} import make_world\n"}
    texts["tests.test_it"] += "def test_it(): make_world()"
    assert [*Suite(texts).without_assertion()] == ["tests.test_it:2 test_it"]
