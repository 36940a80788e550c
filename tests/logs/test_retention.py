"""Builds have logs of their own; logs are deleted with their services and after their retention."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.world import NOON, HandClock
from windlass.base.clock import DAY
from windlass.base.segments import line_filter
from windlass.control.context.log_store import Logs


@pytest.fixture
def logs(tmp_path: Path) -> Logs:
    return Logs(tmp_path / "logs", 64 * 1024, 14, HandClock())


def said(logs: Logs, service: str, deployment: str | None = None) -> list[str]:
    return [json.loads(line)["message"] for line in logs.tail(service, 10_000, deployment=deployment)]


def test_each_build_has_its_own_log(logs: Logs):
    say, other = (logs.deployment("shop", number, None) for number in ("1", "2"))
    logs.write("shop", NOON, "running")
    say("step one")
    other("another build")
    say("step two")
    assert said(logs, "shop") == ["running"]
    assert said(logs, "shop", "1") == ["step one", "step two"]
    (line,) = [
        json.loads(line) for line in logs.tail("shop", 9, line_filter(contains="another"), deployment="2")
    ]
    assert (line["pod_name"], line["version"]) == ("windlass", "2")


def test_forgetting_a_service_removes_its_logs_with_those_of_its_builds(logs: Logs, tmp_path: Path):
    logs.write("shop", NOON, "running")
    logs.deployment("shop", "1", None)("built")
    logs.write("blog", NOON, "running")
    logs.forget("shop")
    logs.forget("shop")
    assert [path.name for path in (tmp_path / "logs").iterdir()] == ["blog"]
    assert said(logs, "shop") == said(logs, "shop", "1") == []


async def test_a_sweep_removes_only_the_lines_of_the_given_services(logs: Logs):
    for service in ("shop", "blog"):
        logs.write(service, NOON, "running")
        logs.deployment(service, "1", None)("built")
    await logs.sweep(())
    assert set(await logs.services()) == {"shop", "blog"}
    await logs.sweep(["shop"])
    assert said(logs, "shop") == said(logs, "shop", "1") == []
    assert said(logs, "blog") == ["running"]


async def test_logs_that_were_set_aside_are_restored_unchanged(logs: Logs, tmp_path: Path):
    logs.write("shop", NOON, "running")
    logs.deployment("shop", "1", None)("built")
    await logs.set_aside("shop", tmp_path / "aside")
    assert said(logs, "shop") == said(logs, "shop", "1") == []
    await logs.put_back("shop", tmp_path / "aside")
    assert (said(logs, "shop"), said(logs, "shop", "1")) == (["running"], ["built"])


async def test_log_lines_are_deleted_after_the_retention_in_days(tmp_path: Path):
    clock = HandClock()
    logs = Logs(tmp_path / "logs", 1 << 30, 14, clock)
    for number in range(40):
        logs.write("shop", clock.now(), f"day {number}")
        logs.deployment("shop", str(number), None)(f"built on day {number}")
        await logs.sweep(())
        clock.turn(DAY / 1000)
    kept = said(logs, "shop")
    assert kept[-14:] == [f"day {number}" for number in range(26, 40)]
    assert len(kept) <= 16
    assert len(list((tmp_path / "logs" / "shop").glob("build-*"))) <= 16
    clock.turn(30 * DAY / 1000)
    await logs.sweep(())
    assert said(logs, "shop") == []
    assert list((tmp_path / "logs" / "shop").glob("build-*")) == []


async def test_builds_of_a_service_have_as_much_room_as_its_log(logs: Logs, tmp_path: Path):
    for number in range(6):
        say = logs.deployment("shop", str(number), None)
        for _ in range(20):
            say("x" * 1000)
        file = next((tmp_path / "logs" / "shop" / f"build-{number}").iterdir())
        os.utime(file, (NOON / 1000 + number, NOON / 1000 + number))
    logs.write("shop", NOON, "running")
    await logs.sweep(())
    kept = [number for number in range(6) if said(logs, "shop", str(number))]
    assert kept == [4, 5] or kept == [3, 4, 5]
    assert said(logs, "shop") == ["running"]
