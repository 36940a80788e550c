"""Sequences of changes, deployments and rollbacks end as a model says."""

from __future__ import annotations

import random
from copy import deepcopy
from typing import Any

import pytest

from tests.running.test_rollbacks import SECRET, VALUE, roll_back
from tests.world import World
from windlass.control.request.hidden_fields import decrypt_hidden
from windlass.families.variable import secret, variable

KEYS = ("COLOUR", "LEVEL", "SHADE")
STEPS = 14
State = dict[str, Any]
"""The memory of an application, and its variables and secrets: kind and value by key."""


class Model:
    """An application, and what its settings and variables have to be."""

    def __init__(self, world: World, app: str, chance: random.Random) -> None:
        self.world, self.path, self.app, self.chance = world, f"/application/{app}", app, chance
        self.present: State = {"memory": 512}
        self.releases: list[State] = []
        self.value = 0

    async def step(self) -> str:
        changes = (self.set_memory, self.put_variable, self.put_variable, self.delete)
        deeds = [*changes, self.deploy, self.go_back]
        deed = self.chance.choice(deeds)
        await deed()
        return deed.__name__

    async def set_memory(self) -> None:
        self.present["memory"] = self.chance.choice([256, 512, 1024])
        await self.world.patch(self.path, {"memory": self.present["memory"]})

    async def put_variable(self) -> None:
        key, self.value = self.chance.choice(KEYS), self.value + 1
        kind, _ = self.present.get(key) or (self.chance.choice([VALUE, SECRET]), "")
        if key in self.present:
            row = await self.stored(kind, key)
            answer = await self.world.patch(f"{self.path}/{kind}/{row['id']}", {"value": str(self.value)})
        else:
            body = {"key": key, "value": str(self.value)}
            answer = await self.world.post(f"{self.path}/{kind}", body)
        assert answer.status in {200, 201}, answer
        self.present[key] = (kind, str(self.value))

    async def delete(self) -> None:
        declared = [key for key in KEYS if key in self.present]
        if declared:
            key = self.chance.choice(declared)
            kind, _ = self.present.pop(key)
            row = await self.stored(kind, key)
            await self.world.delete(f"{self.path}/{kind}/{row['id']}")
            if kind == SECRET:
                self.erase(key)

    def erase(self, key: str) -> None:
        """The values of a deleted secret are gone in all releases that ran with it."""
        for release in self.releases:
            if release.get(key, ("", ""))[0] == SECRET:
                release[key] = (SECRET, None)

    async def deploy(self) -> None:
        assert (await self.world.post(f"{self.path}/deploy")).status == 202
        await self.world.settle()
        self.releases.append(deepcopy(self.present))

    async def go_back(self) -> None:
        if not self.releases:
            return
        number = self.chance.randrange(len(self.releases))
        former = self.releases[number]
        answer = await roll_back(self.world, self.app, f"v{number + 1}")
        if any(former[key] == (SECRET, None) and key not in self.present for key in KEYS if key in former):
            assert answer.status == 409, answer
            return
        assert answer.status == 202, answer
        self.present = self.after(former)
        self.releases.append(deepcopy(self.present))

    def after(self, former: State) -> State:
        """Returns what a rollback leads to. A key that is of another kind now stays, and so does a secret
        that was deleted and created again."""
        after: State = {"memory": former["memory"]}
        for key in KEYS:
            then, now = former.get(key), self.present.get(key)
            is_kept = then and now and (then[0] != now[0] or then == (SECRET, None))
            if chosen := now if is_kept else then:
                after[key] = chosen
        return after

    async def stored(self, kind: str, key: str) -> Any:
        rows = (await self.world.get(f"{self.path}/{kind}"))["results"]
        return next(row for row in rows if row["key"] == key)

    async def check(self) -> None:
        ctx = self.world.installation.ctx
        found: State = {"memory": (await self.world.get(self.path))["memory"]}
        for family, kind in ((variable, VALUE), (secret, SECRET)):
            for row in await ctx.store.reads.resources.of_parent(self.app, family.name):
                shown = await self.stored(kind, row.name or "")
                value = shown["value"] if kind == VALUE else decrypt_hidden(ctx, row)["value"]
                found[row.name or ""] = (kind, value)
        assert found == self.present


@pytest.mark.parametrize("seed", range(4))
async def test_changes_deployments_and_rollbacks_end_as_a_model_says(world: World, seed: int):
    model = Model(world, await world.application(memory=512), random.Random(seed))
    steps: list[str] = []
    for _ in range(STEPS):
        steps.append(await model.step())
        await model.check()
    assert "go_back" in steps, "otherwise, this seed tries nothing"
