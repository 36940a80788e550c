"""Nudges: words that wake listeners on every replica after a commit. A lost nudge costs only time."""

from __future__ import annotations

from typing import Final

DEAF: Final = "deaf"
"""A nudge made by this replica alone: others may have been missed."""
ROUTE: Final = "route:"
CLUSTER: Final = "cluster:"


def events_topic(org: str) -> str:
    """Returns the word for a new event in this organization."""
    return f"events:{org}"


def inside_topic(place: str) -> str:
    """Returns the word for a new event in this environment, or in this project outside its environments."""
    return f"inside:{place}"


def status_topic(id: str) -> str:
    """Returns the word for a change of the status of this service or environment."""
    return f"status:{id}"


def route_topic(service: str) -> str:
    """Returns the word for a change of the routes of this service."""
    return f"{ROUTE}{service}"


def cluster_topic(id: str) -> str:
    """Returns the word for a cluster that was created, changed or deleted."""
    return f"{CLUSTER}{id}"
