"""A client of the Docker Engine API, with its own error classes and streamed answers."""

from windlass.docker.client.answers import Away, EngineRefused
from windlass.docker.client.client import Docker

__all__ = ["Away", "Docker", "EngineRefused"]
