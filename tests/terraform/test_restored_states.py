"""An earlier version of the state that is made the newest one, without a run of the program."""

from __future__ import annotations

import json

from tests.terraform.test_settings import body
from tests.world import World
from windlass.control.records.terraform_states import add_version, newest_content
from windlass.store import Tx

NUMBERS = '"long": 123456789012345678901234567890, "exact": 0.1234567890123456789012345678, "one": 1.0'
STATE = '{"version": 4, "serial": %d, "lineage": "l", "outputs": {"%s": {"value": 1}}, "check": {%s}}'


async def with_two_versions(world: World) -> str:
    service = await world.made(f"/environment/{await world.environment()}/terraform", body())
    for serial, output in ((1, "first"), (2, "second")):

        async def store(tx: Tx, content: bytes = (STATE % (serial, output, NUMBERS)).encode()) -> None:
            row = await tx.resources.get(service)
            assert row is not None
            await add_version(world.installation.ctx, tx, row, service, content)

        await world.installation.ctx.store.write(store)
    return service


async def test_a_restored_state_is_the_earlier_one_to_the_last_digit(world: World):
    service = await with_two_versions(world)
    answer = await world.post(f"/terraform/{service}/restoreState", {"number": 1})
    assert (answer.status, answer["number"], answer["restored_from"]) == (200, 3, 1), answer
    ctx = world.installation.ctx
    content = (await newest_content(ctx, ctx.store.reads, service)).decode()
    assert NUMBERS in content
    assert json.loads(content)["serial"] == 3, "no plan was made for it"
    assert list(json.loads(content)["outputs"]) == ["first"]


async def test_a_state_is_restored_by_those_who_may_apply_it(world: World):
    service = await with_two_versions(world)
    for scopes, status in ((["Read"], 403), (["Write"], 403), (["Deploy"], 200), (["Admin"], 200)):
        token = await world.new_token(*scopes)
        answer = await world.post(f"/terraform/{service}/restoreState", {"number": 1}, token=token)
        assert answer.status == status, (scopes, answer)
