"""Histories do not contain the workloads of deployments, each of which may have megabytes of files."""

from __future__ import annotations

from tests.world import World
from windlass.control.records import links, sealed_workload
from windlass.control.records.sealed_workload import workload_of


async def test_past_deployments_are_read_without_their_workloads(world: World):
    app = await world.application()
    file = {"key": "LARGE", "value": "x" * 60_000, "mount_path": "/large"}
    await world.made(f"/application/{app}/environmentVariable", file)
    for _ in range(3):
        assert (await world.post(f"/application/{app}/deploy")).status == 202
        await world.settle()
    reads = world.installation.ctx.store.reads.deployments
    past = await reads.latest(app, 10)
    assert len(past) == 3
    assert [row.sealed for row in [*past, *await reads.ended(app, 10)]] == [None] * 6
    assert len((await world.get(f"/application/{app}/deploymentHistory?page_size=1000"))["results"]) == 3
    assert await workload_of(world.installation.ctx, past[0].id), "it can still be read"


async def test_a_past_deployment_that_changes_keeps_its_workload(world: World):
    app = await world.application()
    assert (await world.post(f"/application/{app}/deploy")).status == 202
    await world.settle()
    [row] = await world.installation.ctx.store.reads.deployments.latest(app, 1)
    await world.installation.ctx.store.write(lambda tx: tx.deployments.change(row))
    assert await workload_of(world.installation.ctx, row.id)


async def test_a_list_of_services_decrypts_each_workload_once(monkeypatch, world: World):
    app = await world.application(ports=[{"internal_port": 80, "publicly_accessible": True}])
    assert (await world.post(f"/application/{app}/deploy")).status == 202
    await world.settle()
    decrypted: list[str] = []
    real = sealed_workload.decrypt_workload

    def counted(ctx, deployment):
        decrypted.append(deployment.id)
        return real(ctx, deployment)

    monkeypatch.setattr(links, "decrypt_workload", counted)
    shown = [(await world.get(f"/organization/{world.org}/services"))["results"] for _ in range(3)]
    assert shown[0][0]["url"]
    assert shown[0] == shown[2]
    assert len(decrypted) <= 1
    assert (await world.post(f"/application/{app}/deploy")).status == 202
    await world.settle()
    assert (await world.get(f"/application/{app}/link"))["results"][0]["url"] == shown[0][0]["url"]
    assert len(decrypted) <= 2
