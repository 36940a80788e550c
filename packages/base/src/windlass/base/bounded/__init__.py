"""Runs calls that read untrusted files, each in its own process with limits of time and memory."""

from windlass.base.bounded.calls import BoundedCalls, CallLimits, OutOfBounds

__all__ = ["BoundedCalls", "CallLimits", "OutOfBounds"]
