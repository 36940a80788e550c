"""Network options of services. Options that the gateway does not support are refused."""

from __future__ import annotations

from windlass.base.errors import Invalid
from windlass.control.context.call import Call, Reply, encode, reads, writes
from windlass.control.context.context import Context
from windlass.control.request.paths import target
from windlass.core.declare.shapes import Network, NetworkRequest
from windlass.store import Tx


@reads("*.network")
async def read_network(ctx: Context, call: Call) -> Reply:
    await target(ctx.store.reads, call)
    return Reply(encode(Network()))


@writes("*.editNetwork")
async def edit_network(ctx: Context, tx: Tx, call: Call) -> Reply:
    await target(tx, call)
    if call.sent(NetworkRequest).sticky_session:
        raise Invalid(
            "sticky_session: leave it false: the gateway sends each request to any instance: keep sessions "
            "in a database or in the cookie itself"
        )
    return Reply(encode(Network()))
