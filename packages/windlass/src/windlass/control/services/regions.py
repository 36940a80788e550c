"""The regions of cloud providers, which are constant."""

from __future__ import annotations

from functools import cache

from windlass.control.context.call import Call, Reply, encode, reads
from windlass.control.context.context import Context
from windlass.core.words.regions import REGIONS


@reads("listAWSRegions", "listGCPRegions", "listAzureRegions", "listScalewayRegions")
async def list_regions(ctx: Context, call: Call) -> Reply:
    return Reply(_encoded_regions(call.operation.path.split("/")[1]))


@cache
def _encoded_regions(provider: str) -> bytes:
    return encode({"results": REGIONS[provider]})
