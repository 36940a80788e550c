"""Variables cost the server a limited time and memory, however many names and aliases they have."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from tests.turns import counted_turns
from tests.world import World
from windlass.base import fair_share
from windlass.base.ids import new_id
from windlass.control.context import log_store
from windlass.control.context.log_store import MAX_CACHED_MASK_BYTES, Masks
from windlass.control.records import large_documents, sealed_workload
from windlass.control.request import dispatch
from windlass.control.services import finding
from windlass.control.services.terraform_exports import ID_IN_KEY_PATTERN
from windlass.control.variables.copying import REFERENCE_PATTERN
from windlass.core.words import masking, variable_users
from windlass.core.words.hcl import Identifiers, quoted
from windlass.core.words.masking import Mask
from windlass.core.words.variables import (
    MAX_MENTIONS,
    MAX_UNKNOWN_NAMES,
    DeclaredVariable,
    UnresolvableVariable,
    mentioned_names,
    resolve,
)
from windlass.store import MAX_REQUEST_COST

KIB = 1024
LETTERS = "abcdefghij" * 25


def value(text: str) -> DeclaredVariable:
    return DeclaredVariable(id=text[:20], key=f"V_{text[2:8]}", value=text)


@pytest.mark.parametrize("above", [0, 1])
def test_values_mention_a_limited_number_of_names_without_a_variable(above: int):
    """Each of them is in the digest of the service, which is read with each status."""
    names = [f"{{{{n{number}}}}}" for number in range(MAX_UNKNOWN_NAMES + above)]
    level = [value("".join(part)) for part in (names[:500], names[500:], names[:100])]
    if above:
        with pytest.raises(UnresolvableVariable, match="more than 1000"):
            resolve([level])
        return
    assert len(resolve([level]).missing) == MAX_UNKNOWN_NAMES


@pytest.mark.parametrize("above", [0, 1])
@pytest.mark.parametrize("is_file", [False, True])
def test_values_and_files_mention_names_a_limited_number_of_times(above: int, is_file: bool):
    """An empty value makes no other value longer, however often it is mentioned."""
    path = "/etc/app.conf" if is_file else ""
    counts = [MAX_MENTIONS // 2, MAX_MENTIONS // 2 + above]
    level = [
        DeclaredVariable(
            id=f"{number}", key=f"K{number}", value="{{A}}" * count, mount_path=f"{path}{number}" * is_file
        )
        for number, count in enumerate(counts)
    ]
    level.append(DeclaredVariable(id="a", key="A"))
    if above:
        with pytest.raises(UnresolvableVariable, match="more than 20000 times"):
            resolve([level])
        return
    resolved = resolve([level])
    assert {*resolved.variables.values(), *resolved.files.values()} <= {
        "",
        b"",
        *(f"{path}{n}" for n in range(2)),
    }


@pytest.mark.timeout(20)
def test_unknown_names_are_compared_with_others_in_limited_time():
    """The limit of time is the negative control: to compare all of them takes hours."""
    dice = random.Random(1)

    def anagram(length: int) -> str:
        return "".join(dice.sample(LETTERS[:length], length))

    for length in (250, 60, 20):
        keys = [DeclaredVariable(id=str(number), key=anagram(length)) for number in range(1000)]
        mentions = "".join(f"{{{{{anagram(length)}}}}}" for _ in range(200))
        assert resolve([[*keys, value(mentions)]]).missing


async def aliased(world: World) -> tuple[str, str]:
    """Returns the path of the variables of an application, and a variable with six aliases."""
    path = f"/application/{await world.application()}/environmentVariable"
    target = await world.made(path, {"key": "TARGET", "value": "x"})
    for number in range(6):
        await world.made(f"{path}/{target}/alias", {"key": f"ALIAS_{number}"})
    return path, target


@pytest.mark.parametrize("largest", [100 * KIB, large_documents.MAX_BYTES_OF_PARENT])
async def test_the_values_of_aliases_count_towards_the_limit_of_large_variables(
    monkeypatch, world: World, largest: int
):
    monkeypatch.setattr(large_documents, "MAX_BYTES_OF_PARENT", largest)
    path, target = await aliased(world)
    answer = await world.patch(f"{path}/{target}", {"value": "x" * 20 * KIB})
    assert answer.status == (409 if largest == 100 * KIB else 200)
    values = {len(variable["value"]) for variable in (await world.get(path))["results"]}
    assert values == {1 if largest == 100 * KIB else 20 * KIB}
    assert (await world.patch(f"{path}/{target}", {"value": "y"})).status == 200


@pytest.mark.parametrize("largest", [200, MAX_REQUEST_COST])
async def test_a_long_value_counts_once_for_each_alias_towards_the_change_limit(
    monkeypatch, world: World, largest: int
):
    path, target = await aliased(world)
    monkeypatch.setattr(dispatch, "MAX_REQUEST_COST", largest)
    assert (await world.patch(f"{path}/{target}", {"value": "short"})).status == 200
    answer = await world.patch(f"{path}/{target}", {"value": "x" * 40 * KIB})
    assert answer.status == (409 if largest == 200 else 200)


async def test_a_long_chain_of_aliases_is_updated_and_deleted(world: World):
    path = f"/application/{await world.application()}/environmentVariable"
    first = target = await world.made(path, {"key": "TARGET", "value": "x"})
    for number in range(490):
        target = await world.made(f"{path}/{target}/alias", {"key": f"ALIAS_{number}"})
    assert (await world.patch(f"{path}/{first}", {"value": "y"})).status == 200
    assert (await world.get(f"{path}/{target}"))["value"] == "y"
    assert (await world.delete(f"{path}/{first}")).status == 204
    assert (await world.get(path))["results"] == []


# Secrets that are masked in logs


def long_secrets(mark: str) -> list[str]:
    return [f"{mark}-{number}-{'x' * 100}" for number in range(20)]


@pytest.mark.parametrize("most", [30_000, MAX_CACHED_MASK_BYTES])
def test_masks_of_deployments_take_a_limited_memory(monkeypatch: pytest.MonkeyPatch, most: int):
    """An evicted mask is made again with the next line of its deployment."""
    size = Mask(long_secrets("0")).estimated_bytes
    monkeypatch.setattr(log_store, "MAX_CACHED_MASK_BYTES", max(most, 2 * size))
    masks, deployments = Masks(), [new_id() for _ in range(5)]
    for number, deployment in enumerate(deployments):
        masks.add(deployment, long_secrets(str(number)))
    known = [masks.of(deployment) is not None for deployment in deployments]
    assert known == ([False] * 3 + [True] * 2 if most == 30_000 else [True] * 5)


def test_deployments_with_the_same_secrets_share_a_mask():
    masks, deployments = Masks(), [new_id() for _ in range(3)]
    for deployment in deployments:
        masks.add(deployment, long_secrets("same"))
    assert masks.of(deployments[0]) is masks.of(deployments[2])
    masks.add(deployments[0], ["another secret"])
    assert masks.text(deployments[0], "another secret") == masking.MASK
    assert masks.text(deployments[1], "another secret") == "another secret"


def test_a_secret_file_of_very_many_short_lines_is_read_in_part():
    """Negative control: one line less before it, and the secret is masked."""
    hidden = "a secret at the end"
    for lines, shown in ((masking.MAX_LOOKED_AT, hidden), (masking.MAX_LOOKED_AT - 1, masking.MASK)):
        assert Mask(["a\n" * lines + hidden]).text(hidden) == shown
    assert not Mask(["a" * 1_000_000]).text("b" * 100).startswith(masking.MASK)


async def test_values_of_variables_stay_in_memory_only_if_they_are_short(world: World):
    app = await world.application()
    path = f"/application/{app}/environmentVariable"
    for key, length in (("LONG", 5_000), ("SHORT", 50)):
        await world.made(path, {"key": key, "value": f"kept-{key}" + "x" * length})
    assert (await world.post(f"/application/{app}/deploy")).status == 202
    await world.settle()
    kept = {value[:9] for value in sealed_workload._shared if value.startswith("kept-")}
    assert kept == {"kept-SHOR"}


@pytest.mark.parametrize("most", [7, finding.MAX_MATCHES])
async def test_a_search_in_the_variables_of_all_services_has_a_limited_number_of_matches(
    monkeypatch: pytest.MonkeyPatch, world: World, most: int
):
    monkeypatch.setattr(finding, "MAX_MATCHES", most)
    environment = await world.environment()
    names = [await world.application(environment) for _ in range(2)]
    for number in range(4):
        await world.made(f"/environment/{environment}/environmentVariable", {"key": f"K{number}"})
    query = "/resource?family=environmentVariable&below=application"
    assert (await world.get(query)).status == (400 if most == 7 else 200)
    assert len((await world.get(f"{query}&path={names[0]}/"))["results"]) == 4
    assert (await world.get(f"{query}&path=MISSING")).status == 404


# Uses of a variable


@pytest.mark.parametrize("pauses", [True, False])
async def test_values_that_services_share_are_read_once_for_all_of_them_and_one_at_a_time(
    monkeypatch: pytest.MonkeyPatch, world: World, pauses: bool
):
    """Negative control: without pauses, all of them are read while everybody else waits."""
    environment = await world.environment()
    for _ in range(3):
        await world.application(environment)
    for number in range(4):
        body = {"key": f"K{number}", "value": "long{{K0}}" * (number > 0)}
        await world.made(f"/environment/{environment}/environmentVariable", body)
    monkeypatch.setattr(fair_share, "_TURN_SECONDS", 0.0 if pauses else 3600.0)
    async with counted_turns() as counts:

        def read(value: str) -> list[str]:
            counts.add(value.startswith("long"))
            return mentioned_names(value)

        monkeypatch.setattr(variable_users, "mentioned_names", read)
        used = await world.get(f"/environment/{environment}/variableUse?key=K0")
    assert [service["used_in"] for service in used["services"]] == [["K1", "K2", "K3"]] * 3
    assert counts.total == 3
    assert (counts.most == 1) is pauses


def test_each_alias_of_a_long_chain_is_followed_once(monkeypatch: pytest.MonkeyPatch):
    chain = [
        DeclaredVariable(id=f"{number}", key=f"K{number:03}", stands_for=f"{number - 1}" if number else "")
        for number in range(500)
    ]
    followed: list[str] = []
    direct = variable_users._direct_users

    def follow(levels: list[variable_users.VariableIndex], used: DeclaredVariable):
        followed.append(used.id)
        return direct(levels, used)

    monkeypatch.setattr(variable_users, "_direct_users", follow)
    users = variable_users.users_of([variable_users.VariableIndex(chain)], "0")
    assert (len(users.keys), len(followed)) == (499, 500)


# Exports and copies of values


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    ("read", "text"),
    [
        pytest.param(ID_IN_KEY_PATTERN.findall, "QOVERY_A" * 40_000, id="ids in an export"),
        pytest.param(REFERENCE_PATTERN.findall, "{{QOVERY_A" + "_Z12345678" * 40_000, id="ids in a copy"),
        pytest.param(quoted, "$" * 400_000 + "x", id="beginnings of templates"),
        pytest.param(quoted, "%" * 400_000 + "x", id="beginnings of directives"),
    ],
)
def test_a_long_value_is_searched_in_time_that_grows_with_its_length(
    read: Callable[[str], object], text: str
):
    """The limit of time is the negative control: to search the rest of the value from each place in it takes
    minutes, in which nothing else runs."""
    assert read(text) in ([], f'"{text}"')


@pytest.mark.timeout(20)
def test_very_many_equal_names_of_an_export_are_numbered_in_limited_time():
    """The limit of time is the negative control: to try all numbers for each of them takes an hour."""
    names = Identifiers()
    made = [names.make("x" * 80, "secret") for _ in range(100_000)]
    assert len({*made}) == len(made)
    assert made[-1].endswith("_100000")
