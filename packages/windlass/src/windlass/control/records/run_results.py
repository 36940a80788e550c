"""Measures finished runs by the family of their service and by result.

These are runs of jobs and runs of deployments, such as of a module or a one-off command. Release commands are
not measured, because they are part of a deployment.
"""

from __future__ import annotations

from typing import Final

from windlass.base.clock import SECOND
from windlass.core.deploy.progress import Particulars, RunReport
from windlass.core.deploy.states import Progress
from windlass.engines.job_plans import RunDetails, RunState
from windlass.store import Tx

RUN_ENDED: Final = "run"
"""The name of the measurement of a run."""
TIMED_OUT: Final = "timed_out"


def measure_run_of_job(tx: Tx, family: str, state: RunState, details: RunDetails) -> None:
    is_late = state is RunState.FAILED and details.is_given_up
    began = details.began or details.ended
    tx.measure(RUN_ENDED, (details.ended - began) / SECOND, family, TIMED_OUT if is_late else state.lower())


def measure_run_of_deployment(tx: Tx, details: Particulars, progress: Progress) -> None:
    """Measures the run of a finished deployment, unless the run is listed and measured as a run of a job."""
    run = details.run
    if run is not None and not run.is_listed:
        tx.measure(
            RUN_ENDED, (run.ended_at - run.started_at) / SECOND, details.family, _result_of(run, progress)
        )


def _result_of(run: RunReport, progress: Progress) -> str:
    if run.exit_code == 0:  # a later step of the deployment may have failed
        return Progress.SUCCEEDED.lower()
    if progress is Progress.CANCELED:
        return Progress.CANCELED.lower()
    return TIMED_OUT if run.is_timed_out else Progress.FAILED.lower()
