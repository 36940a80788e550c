"""Certificates and keys on the gateway's disk."""

from __future__ import annotations

import base64
import os
import shutil
import stat
from pathlib import Path

import pytest

from tests.gateway.routers.issuing import issue
from windlass.gateway.sealed_files import CERTIFICATES_FOLDER, KEY_FILE, SealedFolder
from windlass.routers.builtin.certificates import CertificateTable
from windlass.routers.router import Certificate, Challenge


def table_of(folder: Path, door: str = "local") -> CertificateTable:
    table = CertificateTable(SealedFolder(folder, door))
    table.load()
    return table


def files_of(folder: Path) -> list[Path]:
    return [file for file in (folder / CERTIFICATES_FOLDER).rglob("*") if file.is_file()]


def forms_of(key: bytes) -> list[bytes]:
    """The forms in which a key could be found in a file: lines of PEM, DER, and hexadecimal digits."""
    lines = key.split(b"\n")[1:-2]
    der = base64.b64decode(b"".join(lines))
    return [*lines, der[-32:], der[-32:].hex().encode()]


def is_there(key: bytes, folder: Path) -> bool:
    contents = [file.read_bytes() for file in folder.rglob("*") if file.is_file()]
    return any(form in content for form in forms_of(key) for content in contents)


def test_certificates_and_challenges_are_there_after_a_restart(tmp_path: Path) -> None:
    certificate = issue("shop.example.com")
    before = table_of(tmp_path)
    before.put("a", certificate)
    before.put("gone", issue("gone.example.com"))
    before.drop("gone")
    before.put_challenge("c", Challenge("shop.example.com", "/x", b"answer", certificate))
    before.put_challenge("d", Challenge("shop.example.com", "/y"))
    before.drop_challenge("d")
    after = table_of(tmp_path)
    assert after.digests() == before.digests()
    assert after.read("a") == certificate
    assert after.http_answers == {(b"shop.example.com", b"/x"): b"answer"}
    assert after.challenge_certificate("shop.example.com") == certificate


def test_doors_have_certificates_of_their_own(tmp_path: Path) -> None:
    table_of(tmp_path).put("a", issue("shop.example.com"))
    assert not table_of(tmp_path, "other").digests()
    SealedFolder(tmp_path, "local").clear()
    assert not table_of(tmp_path).digests()


def test_no_key_is_on_the_disk_in_clear(tmp_path: Path) -> None:
    certificate = issue("shop.example.com")
    table = table_of(tmp_path)
    table.put("a", certificate)
    table.put_challenge("c", Challenge("shop.example.com", certificate=certificate))
    assert len(files_of(tmp_path)) == 2
    assert not is_there(certificate.key, tmp_path)


def test_a_key_in_clear_would_be_found(tmp_path: Path) -> None:
    """The negative control of the test above."""

    class OpenFolder(SealedFolder):
        def write(self, name: str, content: bytes) -> None:
            (tmp_path / "open").write_bytes(content)

    certificate = issue("shop.example.com")
    CertificateTable(OpenFolder(tmp_path, "local")).put("a", certificate)
    assert is_there(certificate.key, tmp_path)


def test_the_sealing_key_is_readable_by_its_user_only(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        table_of(tmp_path).put("a", issue("shop.example.com"))
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / KEY_FILE).stat().st_mode) == 0o600
    assert stat.S_IMODE(files_of(tmp_path)[0].stat().st_mode) == 0o600
    assert stat.S_IMODE(files_of(tmp_path)[0].parent.stat().st_mode) == 0o700


def test_a_file_that_was_changed_moved_or_copied_is_left_out(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    table.put("a", issue("a.example.com"))
    (a,) = files_of(tmp_path)
    table.put("b", issue("b.example.com"))
    (b,) = set(files_of(tmp_path)) - {a}
    shutil.copy(a, b)
    other = SealedFolder(tmp_path, "other")
    other.write("certificate c", b"")
    shutil.copy(a, next(file for file in files_of(tmp_path) if file.parent != a.parent))
    assert table_of(tmp_path).digests().keys() == {"a"}
    assert not table_of(tmp_path, "other").digests()
    a.write_bytes(a.read_bytes()[:-1] + b"x")
    assert not table_of(tmp_path).digests()


@pytest.mark.parametrize("content", [None, b"", b"short"])
def test_with_another_sealing_key_certificates_are_missing_until_they_are_sent_again(
    tmp_path: Path, content: bytes | None
) -> None:
    certificate: Certificate = issue("a.example.com")
    table_of(tmp_path).put("a", certificate)
    if content is None:
        (tmp_path / KEY_FILE).unlink()
    else:
        (tmp_path / KEY_FILE).write_bytes(content)
    after = table_of(tmp_path)
    assert not after.digests()
    after.put("a", certificate)
    assert table_of(tmp_path).read("a") == certificate
