"""Translates file system errors to errors of the engine."""

from __future__ import annotations

import errno
from typing import Final

from windlass.engines.engine import EngineError, EngineUnavailable

_PERMANENT_ERRORS: Final = frozenset({errno.EPERM, errno.EACCES, errno.EROFS, errno.ENOTEMPTY, errno.EBUSY})
"""Error codes of a failed erasure that another attempt does not solve."""


def not_erased(error: OSError) -> EngineError:
    """Returns the error for a service that could not be erased. It is an EngineUnavailable if a later attempt
    may succeed."""
    if error.errno in _PERMANENT_ERRORS:
        return EngineError(
            "Ask the operator to check the data directory: a file of the service cannot be erased "
            f"({error.strerror})"
        )
    return away(error)


def is_full(error: OSError) -> bool:
    """Returns whether the error means that the disk is full."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def away(error: OSError) -> EngineUnavailable:
    if is_full(error):
        return disk_is_full()
    return EngineUnavailable(f"the folder of the process engine cannot be used: {error.strerror or error}")


def disk_is_full() -> EngineUnavailable:
    return EngineUnavailable(
        "Ask the operator to free disk space: the disk of the machine that runs Windlass is full"
    )


def above_share() -> EngineUnavailable:
    return EngineUnavailable(
        "Delete data of the organization, such as services with volumes, or ask the operator to set "
        "organization_disk_bytes: the organization holds more than its share of the disk, and little is free"
    )
