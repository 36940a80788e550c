"""Charts say what each line is, and show the span that is chosen; empty pages show what will be there."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.servers import Repository, Server

pytestmark = pytest.mark.nightly

NewPage = Callable[..., Page]
SAMPLES = 240


def an_hour() -> dict[str, object]:
    now = datetime.now(UTC)
    times = [now - timedelta(seconds=15 * (SAMPLES - index)) for index in range(SAMPLES)]
    requests = {name: [20.0] * SAMPLES for name in ("p50", "p90", "p99")}
    return {
        "every_seconds": 15,
        "times": [time.isoformat(timespec="milliseconds").replace("+00:00", "Z") for time in times],
        "instances": [{"name": "1-0", "cpu": [100.0] * SAMPLES, "memory": [2**20] * SAMPLES}],
        "requests": {"by_status": {"2xx": [5.0] * SAMPLES, "5xx": [1.0] * SAMPLES}, **requests},
    }


def test_the_span_of_the_charts_is_chosen_and_each_line_is_named(
    server: Server, new_page: NewPage, repository: Repository
) -> None:
    app = server.application(server.environment(project="Spans"), repository, "spans")
    page = new_page("/")
    data = an_hour()

    def answer(route: Route) -> None:
        route.fulfill(json=data)

    page.route(f"{server.url}/application/{app}/metrics", answer)
    page.goto(f"{server.url}/console/application/{app}/metrics")
    requests = page.get_by_role("figure", name="Requests")
    expect(requests.locator(".legend-item")).to_have_text(["2xx 5/s", "5xx 1/s"])
    expect(requests.locator("path.area")).to_have_count(2)
    first = requests.locator(".axis span").first
    before = first.inner_text()
    page.get_by_label("15 min").check()
    expect(first).not_to_have_text(before)

    # A service of two minutes has its line at the right edge of the hour that was chosen.
    number = 8
    times = data["times"]
    assert isinstance(times, list)
    data["times"] = times[-number:]
    data["instances"] = [{"name": "1-0", "cpu": [100.0] * number, "memory": [2**20] * number}]
    latency = {name: [20.0] * number for name in ("p50", "p90", "p99")}
    data["requests"] = {"by_status": {"2xx": [5.0] * number}} | latency
    page.get_by_label("1 hour").check()
    page.reload()
    expect(first).to_have_text(before)
    starts = requests.locator("path.line").first.evaluate("line => line.getBBox().x")
    assert starts > 400, "the line fills the chart as if it were an hour long"


def test_a_longer_span_is_fetched_and_shows_all_instances_together(
    server: Server, new_page: NewPage, repository: Repository
) -> None:
    app = server.application(server.environment(project="Long spans"), repository, "long-spans")
    page = new_page("/")
    hour = an_hour()
    day = hour | {
        "every_seconds": 300,
        "times": [f"2026-01-{30 + index // 12:02}T{index % 12 * 2:02}:00:00.000Z" for index in range(24)],
        "instances": [],
        "requests": None,
        "usage": {"cpu": [250.0] * 24, "memory": [2**20] * 24, "instances": [2] * 24},
    }
    page.route(
        re.compile(re.escape(f"{server.url}/application/{app}/metrics")),
        lambda route: route.fulfill(json=day if "span=24h" in route.request.url else hour),
    )
    page.goto(f"{server.url}/console/application/{app}/metrics")
    expect(page.get_by_role("figure", name="Requests")).to_be_visible()
    page.get_by_label("24 hours").check()
    expect(page.get_by_role("figure", name="Processor")).to_contain_text("25 %")
    expect(page.get_by_role("figure", name="Instances")).to_contain_text("2")
    expect(page.get_by_role("figure", name="Requests")).to_have_count(0)
    expect(page.get_by_role("figure", name="Processor").locator(".axis span").first).to_contain_text("30")
    page.get_by_label("1 hour").check()
    expect(page.get_by_role("figure", name="Requests")).to_be_visible()


def test_an_empty_list_shows_an_example_that_cannot_be_used(server: Server, new_page: NewPage) -> None:
    page = new_page(f"/organization/{server.org}/webhook")
    expect(page.locator(".empty")).to_contain_text("No webhooks yet")
    preview = page.locator(".preview")
    expect(preview.locator("tbody tr").first).to_be_attached()
    expect(preview).to_have_attribute("aria-hidden", "true")
    expect(preview.locator("a, button")).to_have_count(0)
    page.goto(f"{server.url}/console/new")
    expect(page.locator(".steps li")).to_have_count(3)
