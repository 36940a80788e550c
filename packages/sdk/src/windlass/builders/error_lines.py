"""Finds the line that explains why a build tool failed: pip, npm, compilers, apt and the like."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

MAX_REASON_LENGTH: Final = 300
_ESCAPES_PATTERN: Final = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
_CREDENTIALS_PATTERN: Final = re.compile(r"(?<=://)[^\s/@]{1,1000}+@")
_NPM_PATTERN: Final = re.compile(
    r"npm (?:error|ERR!) (?!A complete log|code |errno |syscall |path |\d+\s*$)\S"
)
_ERROR_LINE_PATTERN: Final = re.compile(
    r"(?:\[?ERROR\]?|error(?:\[\w+\])?|fatal(?: error)?|E|ERR!|Error|make(?:\[\d+\])?: \*\*\*)[: ] *\S"
    r"|(?:[A-Za-z_][\w.]{0,80}(?:Error|Exception))(?::|\Z)"
    r"|(?:[a-z_]\w{0,40}\.){1,8}[A-Z]\w{0,60}: \S"
    r"|\S{1,300}:\d+:\d+: \S"
    r"|.{1,300}: (?:not found|No such file or directory|Permission denied|No space left on device)\Z"
)
_SAYS_NOTHING_PATTERN: Final = re.compile(
    r"(?i)could not compile|aborting due to|subprocess-exited-with-error|re-run Maven|For more information"
    r"|\[Help \d\]|Some problems were encountered|Unknown packaging"
    r"|exit code|This error originates|command failed with|process .* did not complete"
    r"|\[ERROR\] (?:->|After correcting|To see the full stack)|ELIFECYCLE"
)


def error_line(lines: Sequence[str]) -> str:
    """Returns the last line that reports an error. For npm alone, returns the first error line. Empty: no
    line reports an error."""
    plain = [_ESCAPES_PATTERN.sub("", line).strip() for line in lines]
    of_npm = [line for line in plain if _NPM_PATTERN.match(line) and not _SAYS_NOTHING_PATTERN.search(line)]
    others = [
        line for line in plain if _ERROR_LINE_PATTERN.match(line) and not _SAYS_NOTHING_PATTERN.search(line)
    ]
    chosen = others[-1] if others else of_npm[0] if of_npm else ""
    return _CREDENTIALS_PATTERN.sub("***@", "".join(filter(str.isprintable, chosen)))[
        :MAX_REASON_LENGTH
    ].rstrip(" .")
