"""Logs an outage: a line at its beginning, a line for each further reason, and a summary at its end."""

from __future__ import annotations

import logging
import time
from typing import Final

_MAX_REASONS: Final = 5
"""The maximum number of logged reasons. Each attempt may have another reason, if it contains an address."""


class Outage:
    def __init__(self, logger: logging.Logger, failing: str, working: str) -> None:
        """`failing` is the message of the lines during the outage, `working` the message of the summary."""
        self._logger, self._failing, self._working = logger, failing, working
        self._reasons: set[str] = set()
        self._attempts = 0
        self._began = 0.0

    @property
    def lasts(self) -> bool:
        return self._attempts > 0

    def note(self, reason: str) -> None:
        """Records a failed attempt and its reason."""
        if not self._attempts:
            self._began = time.monotonic()
        self._attempts += 1
        if reason not in self._reasons and len(self._reasons) < _MAX_REASONS:
            self._reasons.add(reason)
            self._logger.warning(self._failing, extra={"error": reason})

    def end(self) -> None:
        """Records a successful attempt, and so ends the outage."""
        if self._attempts:
            seconds = round(time.monotonic() - self._began, 1)
            self._logger.warning(self._working, extra={"seconds": seconds, "failed": self._attempts})
            self._attempts = 0
            self._reasons.clear()
