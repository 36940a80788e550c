"""Uploads a folder to an application, in parts. An interrupted upload can be resumed."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import IO, Any, Final

import msgspec

from windlass.base.dockerignore import TooLong
from windlass.cli.client import Api, ApiRefused, ServerUnreachable
from windlass.cli.folder_archive import FolderArchive, archive_folder
from windlass.cli.following import RetryTimer, retry_until_done
from windlass.terminal.command_errors import CommandFailed, InvalidUsage, in_sentence

PART_BYTES: Final = 8 * 1024 * 1024
"""Bytes per request."""
_READY_STATE: Final = "READY"
_OFFSET_HEADER: Final = "upload-offset"
_BINARY_HEADERS: Final = {"Content-Type": "application/octet-stream"}


class FolderUpload:
    """The upload of an archive to an application."""

    def __init__(
        self, api: Api, application: str, archive: FolderArchive, report_line: Callable[[str], None]
    ) -> None:
        """`application`: the API path of the application."""
        self._api = api
        self._uploads = f"{application}/upload"
        self._archive = archive
        self._note = report_line
        self._patience = RetryTimer()

    def send(self) -> str:
        """Uploads the archive, and returns the id of the complete upload. Data that the server already has is
        not sent again."""
        upload = self._find() or self._create()
        if upload["state"] == _READY_STATE:
            self._note("The server has this version of the folder already.")
            return str(upload["id"])
        path = f"{self._uploads}/{upload['id']}"
        self._note(self._announcement(int(upload["offset"])))
        self._send_from(int(upload["offset"]), f"{path}/content")
        self._retry(lambda: self._api.call("POST", f"{path}/complete").json)
        return str(upload["id"])

    def _find(self) -> Mapping[str, Any] | None:
        rows = self._retry(lambda: self._api.everything(self._uploads))
        same = [
            row for row in rows if (row["sha256"], row["size"]) == (self._archive.digest, self._archive.size)
        ]
        return max(same, key=lambda row: (row["state"] == _READY_STATE, row["offset"]), default=None)

    def _create(self) -> Mapping[str, Any]:
        body = msgspec.json.encode({"size": self._archive.size, "sha256": self._archive.digest})
        created: dict[str, Any] = self._api.call("POST", self._uploads, body).json
        return created

    def _send_from(self, offset: int, path: str) -> None:
        while offset < self._archive.size:
            before, offset = offset, self._send_part(offset, path)
            if offset > before and offset < self._archive.size:
                self._note(f"  {100 * offset // self._archive.size} %")

    def _send_part(self, offset: int, path: str) -> int:
        """Sends one part. Returns the offset at which to continue, which may be smaller than before."""
        self._archive.file.seek(offset)
        part = self._archive.file.read(PART_BYTES)
        try:
            answer = self._api.call("PUT", path, part, query={"offset": offset}, headers=_BINARY_HEADERS)
            self._patience.over()
            return int(answer.json["offset"])
        except ApiRefused as refused:
            place = refused.headers.get(_OFFSET_HEADER, "")
            if refused.status == HTTPStatus.CONFLICT and place.isdecimal() and int(place) != offset:
                return int(place)
            self._patience.wait(refused)
        except ServerUnreachable as problem:
            self._patience.wait(problem)
        # The server may have stored a part of the data. It rejects a wrong offset with the correct one.
        return offset

    def _retry(self, send_request: Callable[[], Any]) -> Any:
        return retry_until_done(send_request, self._patience)

    def _announcement(self, offset: int) -> str:
        count = f"{self._archive.files} file{'s' if self._archive.files != 1 else ''}"
        kilobytes = self._archive.size / 1024
        size = f"{kilobytes / 1024:.1f} MB" if kilobytes >= 1024 else f"{kilobytes:.1f} KB"
        done = f", from {100 * offset // self._archive.size} %" if offset else ""
        return f"Uploading {count}, {size}{done}"


@contextmanager
def packed(folder: Path) -> Iterator[FolderArchive]:
    """Yields the archive of a folder as a temporary file."""
    file: IO[bytes]
    with tempfile.TemporaryFile(prefix="windlass-") as file:
        try:
            archive = archive_folder(folder, file)
        except OSError as error:
            where = error.filename or folder
            raise CommandFailed(
                f"let this user read {where}, or leave it out with .windlassignore: {error}"
            ) from error
        except TooLong as error:
            raise CommandFailed(in_sentence(str(error))) from error
        if not archive.files:
            raise InvalidUsage(f"go to the folder of the application: {folder} has no files to upload")
        yield archive
