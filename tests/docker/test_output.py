"""No line of a container is lost or repeated."""

from __future__ import annotations

import pytest

from tests.docker.watched import FOREVER, again, ended, until, wanted
from windlass.docker import follow, output_budget

pytestmark = pytest.mark.slow


class TestOutput:
    async def test_no_output_line_is_lost_or_repeated_across_restarts_of_windlass(self, watched):
        it = wanted(
            "i=0; while [ $i -lt 150 ]; do echo $i; echo $i >&2; i=$((i+1)); sleep 0.01; done; " + FOREVER
        )
        await watched.engine.run(it, 0)
        for many in (10, 100, 200):
            await until(lambda many=many: len(watched.lines) > many)  # type: ignore[misc]
            await watched.begin_anew()
        await until(lambda: len(watched.lines) >= 300)
        assert sorted(map(int, watched.said())) == sorted([*range(150), *range(150)])

    async def test_output_written_while_windlass_was_down_is_read_afterwards(self, watched, raw):
        it = wanted("echo one; sleep 0.5; echo two; exit 0")
        await watched.engine.run(it, 0)
        await until(lambda: watched.said()[:1] == ["one"])
        await watched.engine.stop()
        await ended(raw, it.service)
        await watched.begin_anew()
        await until(lambda: watched.said()[:2] == ["one", "two"])

    async def test_lines_are_cut_at_16_kilobytes_and_whole_when_put_together(self, watched):
        it = wanted("head -c 40000 /dev/zero | tr '\\\\0' x; echo; echo end; " + FOREVER)
        await watched.engine.run(it, 0)
        await until(lambda: watched.said()[-1:] == ["end"])
        assert [len(line) for line in watched.said()[:-1]] == [16_384, 16_384, 40_000 - 2 * 16_384]

    async def test_log_lines_have_the_instance_the_deployment_and_a_timestamp(self, watched):
        it = wanted("echo hello; " + FOREVER, name="Shop", deployment="d-7")
        await watched.engine.run(it, 2)
        (line,) = await until(lambda: watched.lines)
        assert (line.pod, line.version) == ("shop-1-2", "d-7")
        instance = (await watched.engine.all())[0]
        assert abs(line.at - instance.started_at) < 60_000

    async def test_50000_output_lines_of_a_fast_program_are_read_completely(self, watched):
        it = wanted("seq 1 50000; echo end; " + FOREVER, cpu=1000)
        await watched.engine.run(it, 0)
        await until(lambda: watched.said()[-1:] == ["end"])
        assert watched.said() == [*map(str, range(1, 50_001)), "end"]

    async def test_output_above_the_rate_limit_is_skipped_except_for_the_last_lines(
        self, watched, raw, monkeypatch
    ):
        for name, most in (
            ("BURST_BYTES", 200_000),
            ("RESUME_BYTES", 100_000),
            ("BYTES_PER_SECOND", 50_000),
            ("SHARED_BYTES_PER_SECOND", 200_000),
        ):
            monkeypatch.setattr(output_budget, name, most)
        monkeypatch.setattr(follow, "LAST_LINES", 100)
        it = wanted("seq 1 50000; echo end; " + FOREVER, cpu=1000)
        await watched.engine.run(it, 0)
        await until(lambda: watched.said()[-1:] == ["end"])
        said = watched.said()
        cut = next(at for at, line in enumerate(said) if line.startswith("[windlass] output of "))
        assert said[:cut] == [*map(str, range(1, cut + 1))]
        assert 1000 < cut < 10_000
        assert said[-100:] == [*map(str, range(49_902, 50_001)), "end"]
        count = len(said)
        await watched.begin_anew()  # lines that were left out are not read later
        await watched.engine.run(again(it, command=("sh", "-c", "echo up")), 1)
        await until(lambda: "up" in watched.said())
        assert watched.said()[count:] == ["up"]

    async def test_the_last_lines_of_a_flood_are_read_when_the_container_ends(self, watched, monkeypatch):
        monkeypatch.setattr(output_budget, "BURST_BYTES", 200_000)
        monkeypatch.setattr(output_budget, "SHARED_BYTES_PER_SECOND", 1)  # a pause of days
        it = wanted("trap 'kill %1; wait; echo bye; exit 0' TERM; yes & wait", cpu=1000)
        await watched.engine.run(it, 0)
        follower = next(iter(watched.engine._watch._followers.values()))
        await until(lambda: follower._is_behind)
        await watched.engine.remove(it.service, grace=20)
        assert watched.said()[-1] == "bye"
        assert len(watched.said()) < 20_000
