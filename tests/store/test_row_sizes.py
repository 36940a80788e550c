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


async def test_what_deployments_keep_of_former_secrets_counts(world):
    application = await world.application()
    store = world.installation.ctx.store
    path = f"/application/{application}/secret"
    secret = await world.made(path, {"key": "LONG", "value": "x"})
    before = await store.row_sizes()
    for number in range(5):
        value = {"key": "LONG", "value": f"{number}" * 60_000}
        assert (await world.put(f"{path}/{secret}", value)).status == 200
        assert (await world.post(f"/application/{application}/deploy")).status == 202
        await world.settle()
    after = await store.row_sizes()
    present, workloads, versions = 60_000, 5 * 60_000, 5 * 60_000
    assert after[world.org] - before[world.org] > present + workloads + versions


async def test_answers_that_are_kept_for_repetitions_count(world):
    """They are kept for a day, also if the requests have changed nothing."""
    path = f"/application/{await world.application()}/environmentVariable/import"
    store = world.installation.ctx.store
    sent = {
        "overwrite": True,
        "vars": [{"name": "LONG", "value": "x" * 60_000, "scope": "APPLICATION", "is_secret": False}],
    }
    assert (await world.post(path, sent)).status == 201
    token = await world.new_token("Write")
    before = await store.row_sizes()
    for number in range(5):
        answer = await world.post(path, sent, token=token, headers={"idempotency-key": str(number)})
        assert answer.status == 201
    grown = (await store.row_sizes())[world.org] - before[world.org]
    assert 5 * 60_000 < grown < 7 * 60_000
