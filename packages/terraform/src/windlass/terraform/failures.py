"""Finds the reason of a failed run, and the remedy, in the output of Terraform or OpenTofu. Does no I/O."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

MAX_LOG_LINES: Final = 100
"""Number of last log lines in which the reason is searched for."""
_BOX_CHARACTERS: Final = "│╷╵ "
_ERROR_PATTERN: Final = re.compile(r"Error: (.+)")
_ERROR_PLACE_PATTERN: Final = re.compile(r"on (\S+) line (\d+)")
_COMMAND_PATTERN: Final = re.compile(r"windlass: (?:terraform|tofu)\S* [a-z-]+$")
_REMARK_PREFIX: Final = "windlass: "
"""The prefix of the launcher's lines. Its last line contains the remedy."""
_NO_VALUE_ERROR: Final = "No value for required variable"
_VARIABLE_PATTERN: Final = re.compile(r'input variable "([^"]+)" is not set')


def explain_output(lines: Sequence[str]) -> str:
    """Returns the remedy in the last line, or else the first error of the last command. Returns an empty
    string if the output contains neither."""
    bare = [line.strip(_BOX_CHARACTERS) for line in lines]
    last = next((line for line in reversed(bare) if line), "")
    if last.startswith(_REMARK_PREFIX) and not _COMMAND_PATTERN.match(last):
        remedy = last.removeprefix(_REMARK_PREFIX)
        return remedy[:1].upper() + remedy[1:]
    begin = max((index for index, line in enumerate(bare) if _COMMAND_PATTERN.match(line)), default=-1) + 1
    return _explain_error(bare[begin:])


def _explain_error(lines: Sequence[str]) -> str:
    errors = [(index, match[1]) for index, line in enumerate(lines) if (match := _ERROR_PATTERN.match(line))]
    if not errors:
        return ""
    begin, error = errors[0]
    end = errors[1][0] if len(errors) > 1 else len(lines)
    if error == _NO_VALUE_ERROR and (names := _VARIABLE_PATTERN.findall(" ".join(lines))):
        return (
            f"Give a value to the input {'variables' if names[1:] else 'variable'} {', '.join(names)}, in "
            "terraform_variables_source.tf_vars or a file of values: the module has no default"
        )
    place = _ERROR_PLACE_PATTERN.search(" ".join(lines[begin:end]))
    return f"Look at {place[1]}, line {place[2]}: {error}" if place else f"Look at its log: {error}"
