"""Links that the operator makes on the machine of the server, with `windlass user reset`.

A database in a file has one process that writes it. While the server runs, the command therefore puts the
digest of the link into a file in the data directory, where only the operator can write. The server takes
it over when the link is first opened.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import msgspec

from windlass.base.private import private_folder
from windlass.base.subprocesses import in_thread
from windlass.config import Settings
from windlass.control.context.call import ITSELF
from windlass.control.context.context import Context
from windlass.control.people.callers import OWN_ISSUER
from windlass.control.people.sessions import OPERATOR_SUBJECT
from windlass.control.records.recording import About, emit
from windlass.core.words.events import Event
from windlass.families import registry
from windlass.families.member import member
from windlass.store import Tx
from windlass.store.tables.people import PasswordLink, Person

LINKS_FOLDER: Final = "password-links"


def _file(settings: Settings, digest: str) -> Path:
    return Path(settings.data_dir) / LINKS_FOLDER / digest


def leave_operator_link(settings: Settings, link: PasswordLink) -> None:
    """Puts a link where the running server finds it."""
    file = _file(settings, link.digest)
    private_folder(file.parent)
    owner = file.parent.parent.stat()
    unfinished = file.with_suffix(".new")
    unfinished.touch(mode=0o600)
    unfinished.write_bytes(msgspec.json.encode(link))
    for path in (file.parent, unfinished):
        if path.stat().st_uid != owner.st_uid:  # the operator is root, and the server is not
            os.chown(path, owner.st_uid, owner.st_gid)
    unfinished.rename(file)


async def record_operator_link(tx: Tx, person: Person) -> None:
    """Records in each organization of a person that the operator has made a link."""
    is_part = registry().audit.is_part(member.name)
    for id, org, _ in await tx.identities.of(OWN_ISSUER, person.id):
        subject = (org, "organization") if is_part else (id, member.name)
        about = About(id, member.name, *subject)
        emit(tx, Event.PASSWORD_LINK_CREATED, org, about, OPERATOR_SUBJECT, OPERATOR_SUBJECT, ITSELF, {})


async def adopt_operator_link(ctx: Context, digest: str) -> bool:
    """Stores a link of the operator in the database. Returns whether there was one.

    The file is removed first: if the server is killed between, the link is lost, and never works twice.
    """
    link = await in_thread(_take, ctx.settings, digest)
    if link is None or link.ends <= ctx.clock.now():
        return False

    async def change(tx: Tx) -> None:
        if person := await tx.people.get(link.subject):
            await tx.people.add_link(link)
            await record_operator_link(tx, person)

    await ctx.store.write(change)
    return True


def _take(settings: Settings, digest: str) -> PasswordLink | None:
    file = _file(settings, digest)
    try:
        text = file.read_bytes()
        file.unlink()
        link = msgspec.json.decode(text, type=PasswordLink)
    except (OSError, msgspec.DecodeError):
        return None
    return link if link.digest == digest else None
