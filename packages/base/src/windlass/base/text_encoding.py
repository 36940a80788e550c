"""Decodes text files of repositories: UTF-8, or UTF-16 as PowerShell writes the output of a program."""

from __future__ import annotations

import codecs
from typing import Final

_UTF_16: Final = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


def decode_text(content: bytes) -> str:
    """Returns the text of a file, or of its beginning, without its byte order mark. Invalid bytes are
    replaced."""
    if encoding := _UTF_16.get(content[:2]):
        return content[2:].decode(encoding, errors="replace")
    return content.decode("utf-8-sig", errors="replace")
