"""Git tokens. Each belongs to one host, and is not sent to other hosts."""

from __future__ import annotations

from msgspec import UnsetType

from windlass.base.errors import Invalid
from windlass.base.http_out import AddressRefused
from windlass.base.http_out.url import parse_url as api_place
from windlass.control.context.context import Context
from windlass.control.request.behaviour import Behaviour, Change, Draft, behaves
from windlass.control.workloads.repositories import why_not_sent
from windlass.families.git_token import GitToken, git_token
from windlass.store import Row, Tx


@behaves(git_token)
class GitTokens(Behaviour[GitToken]):
    async def creating(self, ctx: Context, tx: Tx, draft: Draft[GitToken]) -> None:
        _check_api(draft.spec.git_api_url)

    async def updating(self, ctx: Context, tx: Tx, change: Change[GitToken]) -> None:
        _check_api(change.spec.git_api_url)

    def refuses(self, row: Row, address: str) -> str:
        return why_not_sent(row, address)


def _check_api(address: str | UnsetType | None) -> None:
    try:
        api_place(str(address))
    except AddressRefused as error:
        raise Invalid(f"git_api_url: {error}") from error
