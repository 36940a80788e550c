"""Reads option values from files or standard input, so that secrets do not appear in process lists.

`@FILE` stands for the content of a file, `-` for standard input, and `@@…` for a text that begins with @.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from windlass.terminal.command_errors import InvalidUsage

MAX_VALUE_BYTES: Final = 1024 * 1024
"""Maximum bytes of a value, equal to the largest request body that the API accepts."""
STDIN: Final = "-"


def read_texts(option: str, values: Sequence[str], used_options: set[str]) -> list[str]:
    """Returns the texts that an option's values stand for. `used_options`: the options that have already read
    standard input, which can be read only once."""
    return [_option_text(option, value, used_options) for value in values]


def read_file(name: str) -> str:
    """Returns the text of a file argument; `-` stands for standard input."""
    if name == STDIN:
        return _decode("FILE", "the standard input", sys.stdin.buffer.read(MAX_VALUE_BYTES + 1))
    return _file_content("FILE", name, "")


def _option_text(option: str, value: str, used_options: set[str]) -> str:
    if value == STDIN:
        if used_options:
            raise InvalidUsage(
                f"{option}: name a file, as @FILE: {min(used_options)} reads the standard input already"
            )
        used_options.add(option)
        return _decode(option, "the standard input", sys.stdin.buffer.read(MAX_VALUE_BYTES + 1))
    if value.startswith("@@"):
        return value[1:]
    if value.startswith("@"):
        return _file_content(option, value[1:], f"; a text that begins with @ is written with @@: @{value}")
    return value


def _file_content(option: str, name: str, hint: str) -> str:
    if not name:
        raise InvalidUsage(f"{option}: name a file after the @{hint}")
    try:
        with Path(name).open("rb") as file:
            content = file.read(MAX_VALUE_BYTES + 1)
    except FileNotFoundError as error:
        raise InvalidUsage(f"{option}: check the name of the file: there is no file {name}{hint}") from error
    except IsADirectoryError as error:
        raise InvalidUsage(f"{option}: name a file: {name} is a folder{hint}") from error
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise InvalidUsage(
            f"{option}: let this user read {name}, which cannot be read ({why}){hint}"
        ) from error
    return _decode(option, name, content)


def _decode(option: str, name: str, content: bytes) -> str:
    """Decodes a text and removes the line end of its last line, which editors and `echo` add."""
    if len(content) > MAX_VALUE_BYTES:
        raise InvalidUsage(
            f"{option}: choose a smaller file: {name} has more than {MAX_VALUE_BYTES // 1024} KiB"
        )
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise InvalidUsage(
            f"{option}: choose a file of text: {name} is not UTF-8 at byte {error.start}"
        ) from error
    return text.removesuffix("\n").removesuffix("\r")
