"""Builds for the process engine: lays out the code, installs dependencies and finds the start command."""

from windlass.process.builds.builder import NativeBuilder

__all__ = ["NativeBuilder"]
