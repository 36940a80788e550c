"""Generates Dockerfiles: `dockerfile(recipe, tree)` returns the text, without running commands or contacting
a registry."""

from windlass.detect.dockerfile.stages import DockerfileOptions
from windlass.detect.dockerfile.writer import argv, dockerfile, is_static

__all__ = ["DockerfileOptions", "argv", "dockerfile", "is_static"]
