"""The account of this installation at the authority that gives its certificates.

The key of the account is stored before the authority knows it, and opening an account with the same key finds
it again. So a server that is killed loses no account, and all servers share one.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from windlass.base.acme import AcmeClient
from windlass.base.acme.signing import new_private_key
from windlass.control.context.authority import Authority
from windlass.control.context.context import Context
from windlass.store import ACME_ACCOUNTS, FACT, Reads, Tx


class AcmeAccount(Struct, frozen=True):
    key: str
    """The private key in PEM."""
    url: str = ""
    """The address of the account; empty until the authority has opened it."""


Accounts = dict[str, AcmeAccount]
"""Accounts by the directory of the authority."""


async def client_of(ctx: Context, authority: Authority) -> AcmeClient:
    """Returns a client with the account of this installation, which is opened first if there is none."""
    directory = authority.directory
    if authority.client:
        return authority.client
    account = (await _accounts(ctx, ctx.store.reads)).get(directory)
    if account is None:
        account = await ctx.store.write(lambda tx: _add(ctx, tx, directory))
    await ctx.point("account key stored")
    client = AcmeClient(authority.http, directory, account.key.encode(), account.url)
    if not account.url:
        url = await client.open_account(ctx.settings.acme_email, authority.external)
        await ctx.point("account opened")
        await ctx.store.write(lambda tx: _change(ctx, tx, directory, replace(account, url=url)))
    authority.client = client
    return client


async def forget_address(ctx: Context, authority: Authority) -> None:
    """Forgets the address of an account that the authority does not know any more. It is opened again with
    the same key."""
    authority.client = None

    async def change(tx: Tx) -> None:
        if account := (await _accounts(ctx, tx)).get(authority.directory):
            await _change(ctx, tx, authority.directory, replace(account, url=""))

    await ctx.store.write(change)


async def _accounts(ctx: Context, reads: Reads) -> Accounts:
    sealed = await reads.facts.get(ACME_ACCOUNTS)
    if sealed is None:
        return {}
    return msgspec.json.decode(
        ctx.encryption.decrypt(sealed, *FACT.owner(name=ACME_ACCOUNTS)), type=dict[str, AcmeAccount]
    )


async def _add(ctx: Context, tx: Tx, directory: str) -> AcmeAccount:
    """Stores a new key, unless another server has stored one meanwhile."""
    if account := (await _accounts(ctx, tx)).get(directory):
        return account
    account = AcmeAccount(new_private_key().decode())
    await _change(ctx, tx, directory, account)
    return account


async def _change(ctx: Context, tx: Tx, directory: str, account: AcmeAccount) -> None:
    accounts = await _accounts(ctx, tx) | {directory: account}
    sealed = ctx.encryption.encrypt(msgspec.json.encode(accounts), *FACT.owner(name=ACME_ACCOUNTS))
    await tx.facts.set(ACME_ACCOUNTS, sealed)
