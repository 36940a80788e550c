"""Advice about language and size: `make advice` prints it, `make check` too, and nothing fails by it.

A rule that protects users is a test of this folder. A rule of style stands here, with an example that it
finds and one that it lets pass. `docs/contributing-rules.md` lists both.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from tests.code_rules.sources import PAGES, SOURCE, TESTS
from tests.syntax import nodes
from windlass.core.words.naming import to_words

Places = Iterator[tuple[int, str]]
"""Lines and the words there that the advice is about."""


class Advice(NamedTuple):
    name: str
    text: str
    files: Mapping[str, str]
    find: Callable[[str], Places]
    bad: str
    good: str


LATE = re.compile(
    r"[-*\s]*(who|whom|whose|whoever|what|whatever|of|whether|which|(for|to|from|by|in|at) (whom|which))\b",
    re.IGNORECASE,
)
"""First words of a sentence whose subject comes last, if at all."""
UNUSUAL = re.compile(r"\b(nobody|somebody|whoever|whomever|anew|deeds?|whence|whereabouts)\b", re.IGNORECASE)
METAPHORS = frozenset({"census", "courier", "deed", "fate", "nursery", "shelf", "witness"})
VAGUE = frozenset({"each", "it", "one", "said", "told"})
NOUNS = frozenset(
    [
        *(
            "Autoscaling",
            "BadSetting",
            "Finding",
            "Imported",
            "Importing",
            "Levelled",
            "BuildInput",
            "Naming",
        ),
        *("Nothing", "Paging", "Replayed", "Rotated", "Routing", "ShownSetting", "TreeListing"),
    ]
)
"""Classes whose last word ends like a participle and is a noun; and names of schemas that clients know."""
PARTICIPLE = re.compile(
    r"[a-z]+(?<![fp]e)ed|[a-z]{3,}(?<!beginn)(?<!open)(?<!list)(?<!noth)ing"
    r"|shown|told|said|made|given|known|seen|gone|held|sent|taken|done|lost|left|meant|heard|written|hidden"
)
_LOGS = frozenset({"debug", "info", "warning", "error", "exception", "critical"})
_HELPS = frozenset({"help", "short_help", "summary", "description"})
LONG = 400


def docstrings(text: str) -> Places:
    """Yields docstrings of modules, classes, functions and attributes."""
    for node in nodes(text):
        for statement in getattr(node, "body", ()) if not isinstance(node, ast.Lambda | ast.IfExp) else ():
            match statement:
                case ast.Expr(value=ast.Constant(value=str(words))):
                    yield statement.lineno, " ".join(words.split())


def comments(text: str) -> Places:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def messages(text: str) -> Places:
    """Yields the texts of failures and log events, and those of the help and of the document."""
    for node in nodes(text):
        match node:
            case ast.Raise(exc=ast.Call(args=arguments)):
                yield from ((node.lineno, words_of(argument)) for argument in arguments)
            case ast.Call(func=ast.Attribute(attr=name), args=[first, *_]) if name in _LOGS:
                yield node.lineno, words_of(first)
            case ast.Call(keywords=keywords):
                yield from ((node.lineno, words_of(word.value)) for word in keywords if word.arg in _HELPS)


def words_of(node: ast.expr) -> str:
    """The text of an expression, with `…` for each part that is known at run time only."""
    match node:
        case ast.Constant(value=str(text)):
            return " ".join(text.split())
        case ast.JoinedStr(values=parts):
            return "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in parts)
        case ast.BinOp(left=left, right=right):
            return words_of(left) + words_of(right)
    return ""


def sentences(page: str) -> Places:
    """Yields the sentences of the paragraphs and lists of a page. Questions, tables and code are left out."""
    text = re.sub(r"^ *```.*?^ *```", lambda code: "\n" * (code[0].count("\n") + 1), page, flags=re.S | re.M)
    text = re.sub(r"^[#|].*$", "", text, flags=re.M)
    for paragraph in re.finditer(r"(?:(?!\n\s*\n|\n\s*(?:-|\d+\.) ).)+", text, re.S):
        line = text.count("\n", 0, paragraph.start()) + 1
        for sentence in re.split(r"(?<=[.:?!])[*\"]*\s+(?=[A-Z*`\"])", " ".join(paragraph[0].split())):
            if sentence and not sentence.rstrip("*").endswith("?"):
                yield line, sentence


def opens_late(of: Callable[[str], Places]) -> Callable[[str], Places]:
    return lambda text: ((line, words) for line, words in of(text) if LATE.match(words))


def unusual(of: Callable[[str], Places]) -> Callable[[str], Places]:
    def find(text: str) -> Places:
        if UNUSUAL.search(text):  # few files: taking one apart takes long
            yield from (place for place in of(text) if UNUSUAL.search(place[1]))

    return find


def said_in_code(text: str) -> Places:
    yield from docstrings(text)
    yield from comments(text)


def lines(page: str) -> Places:
    yield from enumerate(page.splitlines(), 1)


def vague_names(text: str) -> Places:
    """Yields names of parameters and local variables that do not say what they hold."""
    seen: set[ast.AST] = set()
    for function in nodes(text):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            for node in ast.walk(function):
                match node:
                    case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()) if name in VAGUE:
                        if node not in seen:
                            seen.add(node)
                            yield node.lineno, name


def metaphors(text: str) -> Places:
    for node in nodes(text):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.arg(arg=name):
                pass
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                pass
            case _:
                continue
        if METAPHORS & {*to_words(name).replace("_", " ").split()}:
            yield node.lineno, name


def participles(text: str) -> Places:
    """Yields classes that are no nouns, and private functions that do not say what they do.

    A failure may be named by its event: `BuildRefused`. Properties and context managers read as values.
    """
    for node in nodes(text):
        match node:
            case ast.ClassDef(name=name) if name not in NOUNS and not is_failure(node):
                if re.search(r"[^ef](ed|ing)$", re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+", name)[-1]):
                    yield node.lineno, name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) if name.startswith("_"):
                decorators = " ".join(map(ast.unparse, node.decorator_list))
                if PARTICIPLE.fullmatch(name.lstrip("_")) and not re.search(
                    "property|contextmanager", decorators
                ):
                    yield node.lineno, name


def is_failure(node: ast.ClassDef) -> bool:
    return any(
        re.search(r"(Exception|Error|Failure|Refused|Stopped|Failed)$", ast.unparse(base))
        for base in node.bases
    )


def names_of_tests(text: str) -> Places:
    name = re.compile(r"def (test_(?:who|whose|whom|whoever|what|of|whether|it|its|they|how|that|to)_\w+)")
    for number, line in enumerate(text.splitlines(), 1):
        yield from ((number, found[1]) for found in name.finditer(line))


def is_long(text: str) -> Places:
    count = text.count("\n")
    if count > LONG:
        yield LONG + 1, f"{count} lines"


_SUBJECT = "begin with the subject"
_USUAL = "use the word that an engineer would say"
ADVICE = [
    Advice(
        "docstring",
        _SUBJECT,
        SOURCE | TESTS,
        opens_late(docstrings),
        'class A:\n    x = 1\n    """Of all."""',
        '"""Deletes audit events past their retention."""',
    ),
    Advice(
        "message",
        _SUBJECT,
        SOURCE,
        opens_late(messages),
        'raise E(f"what came is {a}")',
        '_log.info("nothing is left")',
    ),
    Advice(
        "sentence",
        _SUBJECT,
        PAGES,
        opens_late(sentences),
        "# A\n\nPlain. What runs goes on.",
        "Who asks?\n\n```\nwhat\n```\n| What |",
    ),
    Advice("word", _USUAL, SOURCE | TESTS, unusual(said_in_code), "# made anew", "# retried, whatever it is"),
    Advice("word of a page", _USUAL, PAGES, unusual(lines), "Somebody reads.", "Everybody reads."),
    Advice(
        "variable",
        "say what it holds",
        SOURCE,
        vague_names,
        "f = lambda it: 1",
        "def f(rows): found = rows.told",
    ),
    Advice(
        "metaphor", _USUAL, SOURCE, metaphors, "def f(self):\n    self._shelf = 1", "def shelve(record): ..."
    ),
    Advice(
        "participle",
        "a class is a noun, a private function a verb or its result",
        SOURCE,
        participles,
        "def _shown(): ...",
        "class BuildRefused(BuildError): ...\n@property\ndef _held(): ...\ndef _shown_name(): ...",
    ),
    Advice(
        "name of a test",
        _SUBJECT,
        TESTS,
        names_of_tests,
        "def " + "test_what_is_removed_is_gone(): ...",
        "def test_a_removed_service_is_gone(): ...",
    ),
    Advice("length", "is it still one idea?", SOURCE | TESTS, is_long, "pass\n" * 401, "pass\n" * 400),
]


def places() -> Iterator[str]:
    for advice in ADVICE:
        for file, text in advice.files.items():
            for line, words in advice.find(text):
                yield f"{file}:{line}: {advice.name}: {words[:80]!r}: {advice.text}"


def main() -> None:
    found = sorted(places())
    for place in found:
        print(f"advice: {place}")
    print(
        f"{len(found)} pieces of advice. They are not errors: see docs/contributing-rules.md.",
        file=sys.stderr,
    )


if __name__ == "__main__":
    main()
