"""Failures of calls to a cluster, as failures of an engine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from windlass.engines.engine import EngineError, EngineUnavailable
from windlass.kubernetes.api import ClusterRefusal, ClusterUnavailable


@contextmanager
def translated_refusals() -> Iterator[None]:
    """Raises EngineUnavailable or EngineError in place of failures of the cluster."""
    try:
        yield
    except ClusterUnavailable as away:
        raise EngineUnavailable(str(away)) from away
    except ClusterRefusal as refused:
        raise EngineError(
            f"Check the settings of the service, or ask the operator: the cluster refuses: {refused}"
        ) from refused
