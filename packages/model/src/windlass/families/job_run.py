"""A run of a job: one attempt to run it to its end. Its timetable, its environment or a person starts it."""

from typing import Final

from windlass.core.access import Scope
from windlass.core.declare.actions import get, post
from windlass.core.declare.job_runs import JobRun
from windlass.core.declare.queries import Tail
from windlass.core.declare.resource import Family, Spec, Verb
from windlass.core.declare.traits import LogLine
from windlass.families.job import job


class JobRunSpec(Spec):
    """A run of a job, created by the job."""


_LOG_DESCRIPTION: Final = (
    "The lines that it wrote, oldest first; `follow=true` continues with new lines until it ends."
)

job_run = Family(
    "jobRun",
    JobRunSpec,
    parent=job,
    segment="run",
    param="run_id",
    nested=True,
    shown=JobRun,
    verbs=frozenset({Verb.LIST, Verb.READ}),
    names=None,
    actions=(
        get("log", list[LogLine], "Read its log", _LOG_DESCRIPTION, query=Tail, paged=False),
        post(
            "cancel",
            JobRun,
            "Cancel it, if it waits or is under way",
            "409 if it has ended.",
            need=Scope.DEPLOY,
            also=(409,),
        ),
    ),
)
