"""A newcomer's first minute: the demonstration on a whole Windlass that runs real processes."""

from __future__ import annotations

import pytest

from tests.whole import page, place
from windlass.base.isolation.isolation import Isolation


async def test_one_command_leads_to_a_page_that_counts_and_another_takes_it_all_away():
    async with place("process") as there, there.windlass() as windlass:
        if any(part.part == "identity" for part in Isolation("auto", there.folder).missing()):
            pytest.skip("root has no user to give to PostgreSQL here: allow user namespaces; not in a chroot")
        address = (await windlass.say("demo")).json["url"]
        assert 'class="count">1<' in (await page(address)).text
        assert 'class="count">2<' in (await page(address)).text
        assert (await windlass.say("demo")).json["url"] == address
        await windlass.say("demo", "--remove")
        await there.is_empty()
