async def test_a_project_is_created_and_read(world):
    project = await world.project(name="shop")
    assert (await world.get(f"/project/{project}"))["name"] == "shop"


async def test_a_deployment_reaches_running(world):
    app = await world.application()
    answer = await world.post(f"/application/{app}/deploy", None)
    assert answer.status == 202
    assert answer["status"] == "QUEUED"
    await world.settle()
    assert await world.state(f"/application/{app}") == "RUNNING"
