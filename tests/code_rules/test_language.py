"""Docstrings and comments of the product are plain: they begin with their subject and use the usual words."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

from tests.code_rules.test_glossary import FILES
from tests.syntax import parsed

ROOT = Path(__file__).parents[2]

OPENS_LATE = re.compile(
    r"(who|whom|whose|whoever|what|whatever|of|whether|that|those|how|which|where|wherever|when|nothing|nobody"
    r"|not|also|like|everything|everybody|(for|to|from|by|in|under|at|on) (whom|which|where))\b",
    re.IGNORECASE,
)
"""First words of a sentence whose subject comes last, if at all."""
UNUSUAL = re.compile(r"\b(nobody|somebody|whoever|whomever|anew|deeds?|whereabouts)\b", re.IGNORECASE)
MOST = 0.02
LATE_IN_A_MESSAGE = re.compile(
    r"(who|whom|whose|what|of|whether|that|how|which|where|from where)\b", re.IGNORECASE
)
"""First words of a message whose subject comes late. A message may begin with `nothing` or `not`."""
_LOGS = frozenset({"debug", "info", "warning", "error", "exception", "critical"})
_HELPS = frozenset({"help", "short_help", "summary", "description"})
NOUNS = frozenset(
    [
        "Nothing",
        "Routing",
        "TreeListing",
        "BadSetting",
        "ShownSetting",
        "Finding",
        "Paging",
        "Autoscaling",
        "Making",
    ]
) | frozenset(["Importing", "Imported", "Levelled", "Naming", "Replayed", "Rotated"])
"""Classes whose last word ends like a participle and is a noun; and names of schemas that clients know."""


def docstrings(text: str) -> Iterator[str]:
    """Yields docstrings of modules, classes, functions and attributes."""
    for node in ast.walk(parsed(text)):
        for statement in getattr(node, "body", ()) if not isinstance(node, ast.Lambda | ast.IfExp) else ():
            match statement:
                case ast.Expr(value=ast.Constant(value=str(words))):
                    yield " ".join(words.split())


def comments(text: str) -> Iterator[str]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.string


def test_docstrings_begin_with_their_subject():
    said = [(file, words) for file, text in FILES.items() for words in docstrings(text)]
    late = [f"{file}: {words[:80]}" for file, words in said if OPENS_LATE.match(words)]
    assert len(late) <= MOST * len(said), "\n".join(late)


TESTS = {str(file.relative_to(ROOT / "tests")): file.read_text() for file in (ROOT / "tests").rglob("*.py")}


def test_docstrings_of_tests_begin_with_their_subject():
    assert [
        f"{file}: {words[:80]}"
        for file, text in TESTS.items()
        for words in docstrings(text)
        if OPENS_LATE.match(words)
    ] == []


def test_docstrings_and_comments_use_the_usual_words():
    unusual = [
        f"{file}: {words[:100]}"
        for file, text in (*FILES.items(), *TESTS.items())
        if UNUSUAL.search(text)  # in few files: taking one apart takes long
        for words in (*docstrings(text), *comments(text))
        if UNUSUAL.search(words)
    ]
    assert unusual == []


def messages(text: str) -> Iterator[str]:
    """Yields the texts of failures and log events, and those of the help and of the document."""
    for node in ast.walk(parsed(text)):
        match node:
            case ast.Raise(exc=ast.Call(args=arguments)):
                yield from filter(None, map(words_of, arguments))
            case ast.Call(func=ast.Attribute(attr=name), args=[first, *_]) if name in _LOGS:
                yield words_of(first)
            case ast.Call(keywords=keywords):
                yield from (words_of(word.value) for word in keywords if word.arg in _HELPS)


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


PAGES = {
    str(page.relative_to(ROOT)): page.read_text()
    for page in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"))
}
LATE_IN_A_PAGE = re.compile(
    r"\W*(who|whom|whose|whoever|what|whatever|of|whether|how|which|(for|to|from|by|in|at) (whom|which))\b",
    re.IGNORECASE,
)


def prose(page: str) -> Iterator[str]:
    """Yields the sentences of the paragraphs and lists of a page. A question is no such sentence."""
    text = re.sub(r"^ *```.*?^ *```|^(#|\|).*?$", "\n", page, flags=re.DOTALL | re.MULTILINE)
    for paragraph in re.split(r"\n\s*\n|\n\s*(?:-|\d+\.) ", text):
        sentences = re.split(r"(?<=[.:?!])[*\"]*\s+(?=[A-Z*`\"])", " ".join(paragraph.split()))
        yield from (sentence for sentence in sentences if sentence and not sentence.rstrip("*").endswith("?"))


def test_sentences_of_the_manual_and_of_decisions_begin_with_their_subject():
    assert len(PAGES) > 70
    late = [
        f"{name}: {sentence[:100]}"
        for name, page in PAGES.items()
        for sentence in prose(page)
        if LATE_IN_A_PAGE.match(sentence)
    ]
    assert late == []


def test_the_manual_and_decisions_use_the_usual_words():
    unusual = [
        f"{name}: {line[:100]}"
        for name, page in PAGES.items()
        for line in page.splitlines()
        if UNUSUAL.search(line)
    ]
    assert unusual == []


def test_a_sentence_of_a_page_with_a_late_subject_is_found():
    page = "# What it is\n\nPlain. What runs goes on.\nWho asks?\n\n- Of all.\n\n```\nwhat\n```\n| What |\n"
    assert [sentence for sentence in prose(page) if LATE_IN_A_PAGE.match(sentence)] == [
        "What runs goes on.",
        "- Of all.",
    ]


VAGUE = frozenset({"one", "each", "found", "said", "told", "gate", "there", "made", "given", "known", "it"})
"""Names of parameters and local variables that do not say what they hold."""


def vague_names(text: str) -> Iterator[str]:
    """Yields vague names of parameters and local variables of functions."""
    seen: set[ast.AST] = set()
    for function in ast.walk(parsed(text)):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            for node in ast.walk(function):
                match node:
                    case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()) if name in VAGUE:
                        if node not in seen:
                            seen.add(node)
                            yield name


def test_local_variables_say_what_they_hold():
    assert [f"{file}: {name}" for file, text in FILES.items() for name in vague_names(text)] == []


def test_a_vague_name_of_a_local_variable_is_found():
    text = "def f(given):\n for one in given:\n  it = [each.said for each in one]\n return lambda found: 1\n"
    assert sorted(vague_names(text)) == ["each", "found", "given", "it", "one"]
    assert [*vague_names("class Finding:\n    found: str\ndef f(findings): return findings.found")] == []


def participles(text: str) -> Iterator[str]:
    """Yields names of classes that are no nouns. A failure may be named by the event: `BuildRefused`."""
    for node in ast.walk(parsed(text)):
        if isinstance(node, ast.ClassDef) and not is_failure(node) and node.name not in NOUNS:
            last = re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+", node.name)[-1]
            if re.search(r"[^ef](ed|ing)$", last):
                yield node.name


def is_failure(node: ast.ClassDef) -> bool:
    return any(
        re.search(r"(Exception|Error|Failure|Refused|Stopped|Failed)$", ast.unparse(base))
        for base in node.bases
    )


PARTICIPLE = re.compile(
    r"[a-z]+(?<![fp]e)ed|[a-z]{3,}(?<!beginn)(?<!open)(?<!list)(?<!noth)ing"
    r"|shown|told|said|made|given|known|found|seen|gone|held|sent|taken|done|lost|left|meant|heard|written|hidden"
)
"""Matches a name that is nothing but a participle. `_opening`, `_beginning` and `_listing` are nouns."""


def private_participles(text: str) -> Iterator[str]:
    """Yields names of private functions that do not say what they do. Properties and context managers read as
    values, and are left out."""
    for node in ast.walk(parsed(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("_"):
            reads_as_value = re.search(
                "property|contextmanager", " ".join(map(ast.unparse, node.decorator_list))
            )
            if PARTICIPLE.fullmatch(node.name.lstrip("_")) and not reads_as_value:
                yield node.name


def test_private_functions_are_named_by_verbs_or_by_their_result():
    assert [f"{file}: {name}" for file, text in FILES.items() for name in private_participles(text)] == []


def test_a_private_function_that_is_a_participle_is_found():
    text = "def _shown(): ...\nasync def _waiting(): ...\ndef _heard(): ...\n"
    assert [*private_participles(text)] == ["_shown", "_waiting", "_heard"]
    plain = (
        "def _feed(): ...\n@cached_property\ndef _held(): ...\ndef _listing(): ...\ndef _shown_name(): ...\n"
    )
    assert [*private_participles(plain)] == []


LATE_IN_A_TEST = re.compile(r"def test_(who|whose|whom|whoever|what|of|whether|it|its|they|how|that|to)_\w+")


def test_names_of_tests_begin_with_their_subject():
    files = (ROOT / "tests").rglob("*.py")
    assert [name[0] for file in files for name in LATE_IN_A_TEST.finditer(file.read_text())] == []


def test_a_name_of_a_test_with_a_late_subject_is_found():
    assert LATE_IN_A_TEST.search("def " + "test_what_is_removed_is_gone():")
    assert not LATE_IN_A_TEST.search("def " + "test_a_removed_service_is_gone():")


def test_messages_begin_with_their_subject_and_use_the_usual_words():
    every = [(file, words) for file, text in FILES.items() for words in messages(text) if words]
    assert len(every) > 500
    wrong = [
        f"{file}: {words[:100]}"
        for file, words in every
        if LATE_IN_A_MESSAGE.match(words) or UNUSUAL.search(words.replace("`nobody`", ""))
    ]
    assert wrong == []


def test_classes_are_nouns():
    assert [f"{file}: {name}" for file, text in FILES.items() for name in participles(text)] == []


def test_a_message_with_a_late_subject_and_a_participle_are_found():
    text = 'raise E("what came is none")\n_log.info("told anew")\nclass Wanted:\n    """It."""\n'
    late, unusual = messages(text)
    assert LATE_IN_A_MESSAGE.match(late)
    assert UNUSUAL.search(unusual)
    assert [*participles(text)] == ["Wanted"]
    assert [*participles("class Family: ...\nclass BuildRefused(BuildError): ...\nclass Routing: ...")] == []


def test_a_late_subject_and_an_unusual_word_are_found():
    text = (
        '"""What of the audit has had its time."""\n\n\nclass A:\n    x = 1\n    """Of it."""\n# made anew\n'
    )
    assert [bool(OPENS_LATE.match(words)) for words in docstrings(text)] == [True, True]
    assert [bool(UNUSUAL.search(words)) for words in comments(text)] == [True]
    plain = '"""Deletes audit events past their retention, in batches."""\n# retried, whatever the error is\n'
    assert not any(OPENS_LATE.match(words) for words in docstrings(plain))
    assert not any(UNUSUAL.search(words) for words in (*docstrings(plain), *comments(plain)))
