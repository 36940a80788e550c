"""Contexts: the servers that this user has logged in to, each with its token.

They are stored in a file that only this user can read. A token is only sent to the address that it was saved
with.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct, field

from windlass.base.atomic_files import write_whole
from windlass.base.filelock import holding
from windlass.base.private import private_folder
from windlass.terminal.command_errors import CommandFailed, InvalidUsage

CONTEXTS_FILE: Final = "contexts.json"
_MAX_FILE_SIZE: Final = 1024 * 1024
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


class SavedContext(Struct, frozen=True):
    """A server's address, and a token that the server has accepted."""

    url: str
    token: str


class Contexts(Struct):
    """All saved contexts, and the name of the default one."""

    current: str = ""
    contexts: dict[str, SavedContext] = field(default_factory=dict)

    def named(self, name: str) -> SavedContext:
        if name not in self.contexts:
            names = ", ".join(sorted(self.contexts)) or "there is none yet; `windlass login` makes one"
            raise InvalidUsage(f"choose another context than {name!r}: {names}")
        return self.contexts[name]

    @property
    def current_url(self) -> str:
        saved = self.contexts.get(self.current)
        return saved.url if saved else ""

    def token_for(self, url: str) -> str:
        """Returns the token that was saved with exactly this address; empty if there is none."""
        address = normal_url(url)
        names = [name for name, saved in self.contexts.items() if saved.url == address]
        if self.current in names:
            names = [self.current]
        if len(names) > 1:
            raise InvalidUsage(
                f"choose one with --context: {', '.join(sorted(names))} have the address {address}"
            )
        return self.contexts[names[0]].token if names else ""

    def save(self, name: str, context: SavedContext) -> None:
        """Saves a context under a name and makes it the current context."""
        self.contexts[name] = context
        self.current = name

    def remove(self, name: str) -> None:
        self.named(name)
        del self.contexts[name]
        if self.current == name:
            self.current = ""


class ContextFile:
    """The file with the contexts. Reading fails if other users can read or replace the file."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.path = folder / CONTEXTS_FILE

    def read(self) -> Contexts:
        try:
            opened = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return Contexts()
        except OSError as error:
            raise CommandFailed(
                f"let this user read {self.path}, which holds your tokens: {error.strerror}"
            ) from error
        with os.fdopen(opened, "rb") as file:
            self._check(os.fstat(opened))
            content = file.read(_MAX_FILE_SIZE)
        try:
            return msgspec.json.decode(content, type=Contexts)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise CommandFailed(
                f"move {self.path} away and log in again: it is not as `windlass login` wrote it ({error})"
            ) from error

    @contextmanager
    def changing(self) -> Iterator[Contexts]:
        """Yields the contexts for modification and saves them at the end. A lock file serializes commands."""
        try:
            private_folder(self._folder)
            with holding(self._folder / "contexts.lock"):
                contexts = self.read()
                yield contexts
                write_whole(self.path, msgspec.json.format(msgspec.json.encode(contexts)) + b"\n")
        except OSError as error:
            raise CommandFailed(f"let this user write {self._folder}: {error.strerror}") from error

    def _check(self, file: os.stat_result) -> None:
        if file.st_uid != os.geteuid():
            raise CommandFailed(f"move {self.path} away and log in again: the file belongs to another user")
        if stat.S_IMODE(file.st_mode) & 0o077:
            raise CommandFailed(
                f"run `chmod 600 {self.path}`, and revoke its tokens if you do not trust the others on this "
                "machine: other users can read the file"
            )
        folder = self._folder.stat()
        if folder.st_uid != os.geteuid() or stat.S_IMODE(folder.st_mode) & 0o022:
            raise CommandFailed(
                f"run `chmod 700 {self._folder}` as its owner: other users can replace your tokens"
            )


def normal_url(url: str) -> str:
    """Normalizes an address, so that equal servers have equal addresses. Raises InvalidUsage for an invalid
    address."""
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").lower(), parts.port
    except ValueError:
        parts, host, port = urlsplit(""), "", None
    if parts.scheme not in _DEFAULT_PORTS or not host or parts.query or parts.fragment:
        raise InvalidUsage(f"give an address like http://127.0.0.1:8080, and not {url!r}")
    if parts.username is not None:
        raise InvalidUsage("give the address without a user and a password before the @")
    shown = f"[{host}]" if ":" in host else host
    shown += "" if port in (None, _DEFAULT_PORTS[parts.scheme]) else f":{port}"
    return f"{parts.scheme}://{shown}{parts.path.rstrip('/')}"
