"""Dockerfiles of recipes: `dockerfile(recipe, tree)` writes one. Runs nothing and reads no registry."""

from windlass.detect.dockerfile.stages import DockerfileOptions
from windlass.detect.dockerfile.writer import argv, dockerfile, is_static

__all__ = ["DockerfileOptions", "argv", "dockerfile", "is_static"]
