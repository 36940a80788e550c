"""Every change leaves an event, whatever the operation is called."""

from __future__ import annotations

from typing import Final

from tests.derived.operations import for_operations
from tests.derived.stage import Stage
from windlass.core.declare.registry import Operation

CHANGES_NOTHING: Final = {
    "autoDeployContainers",
    "checkContainerRegistry",
    "cleanFailedJob",
    "cleanFailedJobs",
    "deployEnvironment",
    "deployJobsOfImage",
    "previewContainers",
    "redeployEnvironment",
    "stopEnvironment",
    "tryHelmRepository",
}
"""On this stage they have nothing to do, or only look again; tests of their own have the rest."""


@for_operations(lambda operation: operation.writes and operation.method in {"POST", "DELETE"})
async def test_every_operation_that_changes_something_is_audited(stage: Stage, operation: Operation):
    """A PUT or PATCH of what is there already changes nothing."""
    subject = await stage.plot.subject(operation)
    events = "SELECT count(*) FROM event"
    before = await stage.beside(events)
    ids, body, admin = subject.ids, subject.body, subject.tenant.admin
    answer = await stage.call(operation, ids, body, admin, query=subject.query)
    assert answer.status == subject.status
    is_change = answer.status < 400 and operation.id not in CHANGES_NOTHING
    assert (await stage.beside(events) != before) == is_change
