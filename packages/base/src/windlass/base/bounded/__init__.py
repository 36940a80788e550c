"""Calls that strangers' files may make long or large, each in a process of its own with limits."""

from windlass.base.bounded.calls import BoundedCalls, CallLimits, OutOfBounds

__all__ = ["BoundedCalls", "CallLimits", "OutOfBounds"]
