"""Remembers in which namespace each service is, also over restarts of the server.

Who may write to a namespace can give its objects the labels of any service. So labels do not say where a
service is.
"""

from __future__ import annotations

import os
from pathlib import Path

from windlass.base.atomic_files import write_whole


class ServiceHomes:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[str, str] = {}

    def load(self) -> None:
        """Reads what earlier servers have noted."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for file in self._folder.iterdir():
            if not file.suffix and (namespace := file.read_text()):
                self._known.setdefault(file.name, namespace)

    def get(self, service: str) -> str:
        """Returns the namespace of a service; empty if it is not known."""
        return self._known.get(service, "")

    def note(self, service: str, namespace: str) -> None:
        if self._known.get(service) == namespace:
            return
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_whole(self._folder / service, namespace.encode(), durable=False, draft=f"{os.getpid()}")
        self._known[service] = namespace

    def forget(self, service: str) -> None:
        """Removes the note of a deleted service. It stays known until the server ends."""
        (self._folder / service).unlink(missing_ok=True)
