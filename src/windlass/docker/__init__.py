"""A client of the Docker Engine API: one socket, our own failures, streams as they arrive."""

from windlass.docker.client import NO_ANSWER, Answer, Away, Docker, Refused

__all__ = ["NO_ANSWER", "Answer", "Away", "Docker", "Refused"]
