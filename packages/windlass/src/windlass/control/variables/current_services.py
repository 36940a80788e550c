"""Whether all services of an environment run with their present settings and variables.

The answer of each service is kept until its settings, its deployment, a variable that it sees, or the list of
services of the environment changes, so that the status of a large environment costs a few statements.
"""

from __future__ import annotations

from collections.abc import Iterable

from windlass.base.fair_share import FairShare
from windlass.control.context.context import Context
from windlass.control.context.variable_digests import VARIABLE_FAMILIES
from windlass.control.variables.inputs import counted_families, is_current
from windlass.store import Reads, Row, Tx


async def are_current(
    ctx: Context, reads: Reads, environment: Row, deployed: Iterable[tuple[Row, str]]
) -> bool:
    """Returns whether each service has the inputs of its deployment, which is given by its digest."""
    if isinstance(reads, Tx):  # it sees what is not stored yet
        return all([await is_current(ctx, reads, service, digest) for service, digest in deployed])
    share, kept = FairShare(), ctx.variable_digests.answers
    # Read before the inputs: a change in between has a newer version, with which the next caller asks again.
    above = await reads.tree.versions(environment.id, VARIABLE_FAMILIES)
    beside = await reads.tree.versions(environment.id, counted_families(ctx))
    shared = (*above.items(), *beside.items())
    own = await reads.tree.versions_below(environment.id, VARIABLE_FAMILIES)
    for service, digest in deployed:
        version = (hash(service.body), digest, own.get(service.id), shared)
        answer = kept.get(service.id, version)
        if answer is None:
            answer = await is_current(ctx, reads, service, digest)
            kept.keep(service.id, version, answer)
        if not answer:
            return False
        await share.pause()
    return True
