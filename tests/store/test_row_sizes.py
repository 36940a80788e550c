"""The bytes of organizations in the database are counted on both databases."""

from __future__ import annotations


async def test_stored_documents_count_for_the_size_of_their_organization(world):
    application = await world.application()
    other, _ = await world.organization()
    store = world.installation.ctx.store
    org = (await store.reads.resources.get(application)).org
    before = await store.row_sizes()
    value = {"key": "LONG", "value": "x" * 8000}
    assert (await world.post(f"/application/{application}/environmentVariable", value)).status == 201
    after = await store.row_sizes()
    assert 8000 < after[org] - before[org] < 20_000
    assert after[other] == before[other] > 0
