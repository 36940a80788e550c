"""Migrations: numbered SQL files, applied in order, each once, each as a whole."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache
from importlib import resources

from msgspec import Struct


class Changed(Exception):
    """A migration that was applied is not the one in this version."""


class Migration(Struct, frozen=True):
    number: int
    name: str
    text: str

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def statements(self) -> list[str]:
        lines = (line for line in self.text.splitlines() if not line.startswith("--"))
        return [statement for statement in "\n".join(lines).split(";\n") if statement.strip(" \n;")]

    @property
    def record(self) -> tuple[int, str, str]:
        return self.number, self.name, self.checksum

    def is_done(self, applied: str | None) -> bool:
        if applied not in (None, self.checksum):
            raise Changed(f"migration {self.name} was changed after it had been applied")
        return applied is not None


@cache
def migrations() -> Sequence[Migration]:
    folder = resources.files("windlass.store") / "migrations"
    files = sorted(
        (file for file in folder.iterdir() if file.name.endswith(".sql")), key=lambda file: file.name
    )
    return [Migration(int(file.name[:4]), file.name, file.read_text()) for file in files]
