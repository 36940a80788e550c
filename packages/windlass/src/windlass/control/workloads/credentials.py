"""Credentials of databases. They are generated once, stored sealed with the database, and never change."""

from __future__ import annotations

import secrets
import string
from typing import Final

import msgspec

from windlass.base.errors import Missing
from windlass.control.context.context import Context
from windlass.control.request.behaviour import Draft
from windlass.control.request.hidden_fields import decrypt_hidden, encrypt_hidden
from windlass.core.deploy.databases import DatabaseLogin, kind_of
from windlass.families.database import Database
from windlass.store import Reads, Row, Tx

# Letters and digits need no escaping in URLs, shells and configuration files.
_LETTERS: Final = string.ascii_letters + string.digits
_PASSWORD_LENGTH: Final = 40
_LOGIN, _PASSWORD, _DATABASE = "master_login", "master_password", "master_database"


def give_credentials(draft: Draft[Database]) -> None:
    """Adds generated credentials to a new database before it is stored."""
    draft.sealed |= _new_credentials(draft.spec.type)


async def credentials_of(ctx: Context, reads: Reads, row: Row) -> DatabaseLogin:
    """Returns the credentials of a database. Generates them for a database of an early version without
    credentials."""
    hidden = decrypt_hidden(ctx, row)
    if _PASSWORD not in hidden:
        hidden = await _given_credentials(ctx, reads, row)
    return DatabaseLogin(hidden[_LOGIN], hidden[_PASSWORD], hidden[_DATABASE])


def _new_credentials(type: str) -> dict[str, str]:
    kind = kind_of(type)
    password = "".join(secrets.choice(_LETTERS) for _ in range(_PASSWORD_LENGTH))
    return {_LOGIN: kind.login, _PASSWORD: password, _DATABASE: kind.database}


async def _given_credentials(ctx: Context, reads: Reads, row: Row) -> dict[str, str]:
    async def give(tx: Tx) -> dict[str, str]:
        """Stores generated credentials. Of concurrent calls, the first one takes effect."""
        current = await tx.resources.get(row.id)
        if current is None:
            raise Missing("Create the database again if you still need it: it was deleted meanwhile")
        hidden = decrypt_hidden(ctx, current)
        if _PASSWORD in hidden:
            return hidden
        hidden |= _new_credentials(current.read(Database).type)
        sealed = encrypt_hidden(ctx, current.org, current.id, current.tag, hidden)
        await tx.resources.change(msgspec.structs.replace(current, sealed=sealed))
        return hidden

    return await give(reads) if isinstance(reads, Tx) else await ctx.store.write(give)
