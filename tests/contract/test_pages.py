"""Lists are answered in pages, in the order of creation."""

from __future__ import annotations

import pytest

from tests.contract.contract import (
    is_refused,
    names,
    stocked,
)
from tests.contract.rows import row

LISTS = [
    "/organization/{org_id}/project",
    "/application/{app_id}/environmentVariable",
    "/application/{app_id}/secret",
]
NO_PAGES = [
    *("page=0", "page=-1", "page=one", "page=1.5", "page=", "page=1&page=2", "page=%201", "page=9999999999"),
    *("page_size=0", "page_size=-5", "page_size=1001", "page_size=1e2", "page_size="),
]


@row(
    "4.results",
    "4.pagination.page",
    "4.pagination.page_size",
    "4.pagination.total_count",
    "4.pagination.total_pages",
)
async def test_a_list_has_results_and_pagination(world) -> None:
    for number in range(5):
        await world.project(name=f"p{number}")
    answer = await world.get(f"/organization/{world.org}/project?page=2&page_size=2")
    assert answer.json.keys() == {"results", "pagination"}
    assert names(answer) == ["p2", "p3"]
    assert answer["pagination"] == {"page": 2, "page_size": 2, "total_count": 5, "total_pages": 3}
    assert all(type(number) is int for number in answer["pagination"].values())


@row("4.page", "4.page_size")
async def test_the_pages_together_are_the_list_in_the_order_of_creation(world) -> None:
    for number in range(7):
        await world.project(name=f"p{number}")
    projects = f"/organization/{world.org}/project"
    for size in (1, 2, 3, 7, 100):
        pages = [
            await world.get(f"{projects}?page={page}&page_size={size}")
            for page in range(1, -(-7 // size) + 1)
        ]
        assert [name for page in pages for name in names(page)] == [f"p{number}" for number in range(7)]
        assert {page["pagination"]["total_pages"] for page in pages} == {len(pages)}


async def test_page_boundaries_stay_correct_after_deletions_on_earlier_pages(world) -> None:
    ids = [await world.project(name=f"p{number}") for number in range(7)]
    for place in (0, 3):
        await world.delete(f"/project/{ids[place]}")
    answer = await world.get(f"/organization/{world.org}/project?page=2&page_size=2")
    assert names(answer) == ["p4", "p5"]
    assert answer["pagination"] == {"page": 2, "page_size": 2, "total_count": 5, "total_pages": 3}


@pytest.mark.parametrize("path", LISTS)
async def test_every_list_of_the_contract_has_pages(embedded, path: str) -> None:
    collection = path.format(**await stocked(embedded))
    for number in range(3):
        await embedded.post(
            collection, {"name": f"n{number}"} if "project" in path else {"key": f"K{number}"}
        )
    total = (await embedded.get(collection))["pagination"]["total_count"]
    assert total >= 3
    answer = await embedded.get(f"{collection}?page={total}&page_size=1")
    assert len(answer["results"]) == 1
    assert answer["pagination"] == {"page": total, "page_size": 1, "total_count": total, "total_pages": total}


@pytest.mark.parametrize("path", ["/organization", *LISTS])
@pytest.mark.parametrize("query", NO_PAGES)
async def test_an_invalid_page_parameter_is_refused_by_name(embedded, path: str, query: str) -> None:
    answer = await embedded.get(path.format(**await stocked(embedded)) + "?" + query)
    is_refused(answer, 400, query.partition("=")[0] + ": ")


async def test_a_list_without_parameters_is_its_first_hundred(embedded) -> None:
    variables = f"/application/{await embedded.application()}/environmentVariable"
    for number in range(101):
        await embedded.post(variables, {"key": f"K{number}", "value": ""})
    answer = await embedded.get(variables)
    assert len(answer["results"]) == 100
    assert answer["pagination"] == {"page": 1, "page_size": 100, "total_count": 101, "total_pages": 2}
    assert len((await embedded.get(f"{variables}?page_size=1000"))["results"]) == 101
    assert len((await embedded.get(f"{variables}?page=2"))["results"]) == 1


async def test_a_page_after_the_last_is_empty_and_says_so(world) -> None:
    await world.project()
    answer = await world.get(f"/organization/{world.org}/project?page=4&page_size=10")
    assert answer.json == {
        "results": [],
        "pagination": {"page": 4, "page_size": 10, "total_count": 1, "total_pages": 1},
    }


async def test_an_unpaginated_list_is_paginated_on_request(embedded) -> None:
    environment = await embedded.environment()
    made = [await embedded.application(environment) for _ in range(3)]
    path = f"/environment/{environment}/application/status"
    assert [one["id"] for one in (await embedded.get(path))["results"]] == made
    for base in ("", "/compat"):
        last = await embedded.get(f"{base}{path}?page=2&page_size=2")
        assert [one["id"] for one in last["results"]] == made[2:]
        assert last["pagination"] == {"page": 2, "page_size": 2, "total_count": 3, "total_pages": 2}
    assert len((await embedded.get(f"{path}?page=2"))["results"]) == 0


@row("4.regions without pagination")
async def test_the_list_of_cloud_regions_ignores_page_parameters(embedded) -> None:
    whole = await embedded.get("/aws/region")
    assert (await embedded.get("/aws/region?page=2&page_size=1")).body == whole.body


async def test_an_unknown_parameter_is_ignored(embedded) -> None:
    assert (await embedded.get(f"/organization/{embedded.org}/project?colour=teal&page=1")).status == 200
