"""Network options of services: another view of one of their advanced settings."""

from __future__ import annotations

from typing import Final

from windlass.control.context.call import Call, Reply, encode, reads, writes
from windlass.control.context.context import Context
from windlass.control.request.paths import target
from windlass.control.services.advanced_settings import store_changes
from windlass.core.declare.shapes import Network, NetworkRequest
from windlass.core.settings.values import AdvancedValues, changed_in
from windlass.store import Tx

_STICKY_SETTING: Final = "network.ingress.enable_sticky_session"


@reads("*.network")
async def read_network(ctx: Context, call: Call) -> Reply:
    row = await target(ctx.store.reads, call)
    return Reply(encode(Network(sticky_session=AdvancedValues(row.body)[_STICKY_SETTING])))


@writes("*.editNetwork")
async def edit_network(ctx: Context, tx: Tx, call: Call) -> Reply:
    row = await target(tx, call)
    wanted = call.sent(NetworkRequest).sticky_session
    changed = {name: value for name, value in changed_in(row.body).items() if name != _STICKY_SETTING}
    await store_changes(ctx, tx, call, row, changed | ({_STICKY_SETTING: True} if wanted else {}))
    return Reply(encode(Network(sticky_session=wanted)))
