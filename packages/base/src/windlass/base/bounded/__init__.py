"""Calls that untrusted files may make long or large, each in its own process with limits."""

from windlass.base.bounded.calls import BoundedCalls, CallLimits, OutOfBounds

__all__ = ["BoundedCalls", "CallLimits", "OutOfBounds"]
