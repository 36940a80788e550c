"""The steps that deploy, stop or remove a service. All steps are idempotent, because a step starts again
after an interruption."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from windlass.control.deploying.ledger import Ledger
from windlass.control.deploying.steps.build import build
from windlass.control.deploying.steps.maintain import clear, keep
from windlass.control.deploying.steps.release import abandon, release
from windlass.control.deploying.steps.run import run
from windlass.control.deploying.steps.stop import delete, stop, uninstall
from windlass.control.deploying.steps.wake import wake
from windlass.core.deploy.plan import Step

STEPS: Final[Mapping[Step, Callable[[Ledger], Awaitable[None]]]] = {
    Step.BUILD: build,
    Step.RELEASE: release,
    Step.RUN: run,
    Step.STOP: stop,
    Step.UNINSTALL: uninstall,
    Step.DELETE: delete,
    Step.ABANDON: abandon,
    Step.KEEP: keep,
    Step.WAKE: wake,
    Step.REST: clear,
}
