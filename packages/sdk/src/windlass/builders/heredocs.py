"""Finds the heredocs that a line of a Dockerfile begins: `RUN cat <<EOF > /x`.

BuildKit has a parser of its own. If it saw one more heredoc, or one less, it would take the content of a
heredoc for instructions, and those were not checked. So a line with `<<` may only have words that all parsers
read alike.
"""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

_NAME: Final = r"[A-Za-z_][A-Za-z0-9_]*"
_VARIABLE: Final = rf"\$\{{{_NAME}(?::?[-+][A-Za-z0-9_./:,=@-]*)?\}}|\$(?!\{{)"
_WORD: Final = re.compile(
    rf"""(?:[^\s'"\\$]|\\.|{_VARIABLE}|'[^']*'|"(?:[^"\\$]|\\.|{_VARIABLE})*+")++""", re.DOTALL
)
_WORDS: Final = re.compile(rf"[ \t]*+(?:{_WORD.pattern}[ \t]*+)*+", re.DOTALL)
_OPENING: Final = re.compile(
    r"[0-9]*<<(?P<dash>-?)(?P<quote>['\"]?)(?P<name>[A-Za-z0-9_][A-Za-z0-9_.-]*)(?P=quote)"
)
_NO_OPENING: Final = re.compile(r"[0-9]*(?:<<-?\Z|<<<|<[^<$\\'\"]|[^0-9<$\\]|\$\()")
"""A word that begins like this is no heredoc. Before `<<`, an escape or a variable could vanish."""
_HERE_STRING: Final = re.compile("<{3,}")
_JOINED: Final = re.compile(r"""<[<\\$}'"]""")
"""Signs between which nothing may be left once escapes, variables and quotes are gone."""

UNCERTAIN: Final = (
    "put this step into a script of the repository, or write it with simple words: the quotes, escapes or "
    "variables of a line with << are not read alike by all builders"
)


class Opening(Struct, frozen=True):
    name: str
    strips_tabs: bool


def openings(line: str) -> list[Opening]:
    """Returns the heredocs that a line begins. Raises a ValueError if that is uncertain."""
    others = _HERE_STRING.sub("|", line)
    if others.count("<") < 2 or not _JOINED.search(others):
        return []
    found = []
    for word in _words(line):
        if opening := _OPENING.fullmatch(word):
            found.append(Opening(opening["name"], bool(opening["dash"])))
        elif word.count("<") > 1 and not _NO_OPENING.match(word):
            raise ValueError(UNCERTAIN)
    return found


def _words(line: str) -> list[str]:
    if not _WORDS.fullmatch(line):
        raise ValueError(UNCERTAIN)
    return [word[0] for word in _WORD.finditer(line)]
