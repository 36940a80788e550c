"""Builds for the process engine: lays out code, installs dependencies, finds the command that starts it."""

from windlass.process.builds.builder import NativeBuilder

__all__ = ["NativeBuilder"]
