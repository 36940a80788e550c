"""A client of the Docker Engine API: one socket, our own failures, streams as they arrive."""

from windlass.docker.client.answers import Away, EngineRefused
from windlass.docker.client.client import Docker

__all__ = ["Away", "Docker", "EngineRefused"]
