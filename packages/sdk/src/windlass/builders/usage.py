"""The processor time and memory that the steps of a build use."""

from __future__ import annotations

from msgspec import Struct


class BuildUsage(Struct, omit_defaults=True):
    """Processor time and memory of the steps of a build. A builder fills it in while it builds.

    None is unknown: the engine does not say, or no step was seen.
    """

    cpu_ms: int | None = None
    """The processor time of all steps, in milliseconds."""
    peak_memory: int | None = None
    """The most memory that the steps used at a time, in bytes."""

    @property
    def is_known(self) -> bool:
        return self.cpu_ms is not None or self.peak_memory is not None

    def add_cpu(self, milliseconds: int) -> None:
        self.cpu_ms = (self.cpu_ms or 0) + milliseconds

    def note_memory(self, used: int) -> None:
        if used:
            self.peak_memory = max(self.peak_memory or 0, used)
