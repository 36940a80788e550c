"""Docstrings and comments of the product are plain: they begin with their subject and use the usual words."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator

from tests.test_glossary import FILES

OPENS_LATE = re.compile(
    r"(who|whom|whose|whoever|what|whatever|of|whether|that|those|how|which|where|wherever|when|nothing|nobody"
    r"|not|also|like|everything|everybody|(for|to|from|by|in|under|at|on) (whom|which|where))\b",
    re.IGNORECASE,
)
"""First words of a sentence whose subject comes last, if at all."""
UNUSUAL = re.compile(r"\b(nobody|somebody|whoever|whomever|anew|deeds?|whereabouts)\b", re.IGNORECASE)
MOST = 0.02


def docstrings(text: str) -> Iterator[str]:
    """Yields docstrings of modules, classes, functions and attributes."""
    for node in ast.walk(ast.parse(text)):
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


def test_docstrings_and_comments_use_the_usual_words():
    unusual = [
        f"{file}: {words[:100]}"
        for file, text in FILES.items()
        for words in (*docstrings(text), *comments(text))
        if UNUSUAL.search(words)
    ]
    assert unusual == []


def test_a_late_subject_and_an_unusual_word_are_found():
    text = (
        '"""What of the audit has had its time."""\n\n\nclass A:\n    x = 1\n    """Of it."""\n# made anew\n'
    )
    assert [bool(OPENS_LATE.match(words)) for words in docstrings(text)] == [True, True]
    assert [bool(UNUSUAL.search(words)) for words in comments(text)] == [True]
    plain = '"""Deletes audit events past their retention, in batches."""\n# retried, whatever the error is\n'
    assert not any(OPENS_LATE.match(words) for words in docstrings(plain))
    assert not any(UNUSUAL.search(words) for words in (*docstrings(plain), *comments(plain)))
