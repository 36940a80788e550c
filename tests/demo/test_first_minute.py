"""A newcomer's first minute: the demonstration on a whole Windlass that runs real processes."""

from __future__ import annotations

import pytest

from tests.whole import page, place
from windlass.base.isolation.isolation import Isolation


@pytest.mark.slow
async def test_demo_starts_a_visit_counter_and_demo_remove_deletes_everything():
    async with place("process") as there, there.windlass() as windlass:
        if any(part.part == "identity" for part in Isolation("auto", there.folder).missing()):
            pytest.skip("root has no user to give to PostgreSQL here: allow user namespaces; not in a chroot")
        address = (await windlass.say("demo")).json["url"]
        assert 'class="count">1<' in (await page(address)).text
        assert 'class="count">2<' in (await page(address)).text
        assert (await windlass.say("demo")).json["url"] == address
        await windlass.say("demo", "--remove")
        await there.is_empty()
