"""Nudges: messages that wake listeners on every replica after a commit. A lost nudge only causes a delay."""

from __future__ import annotations

from typing import Final

MAY_HAVE_MISSED: Final = "deaf"
"""Topic of a local nudge, which a store sends when it may have missed nudges of other replicas."""
ROUTE_PREFIX: Final = "route:"
CLUSTER_PREFIX: Final = "cluster:"
CERTIFICATE_PREFIX: Final = "certificate:"


def events_topic(org: str) -> str:
    """Returns the topic of new events in an organization."""
    return f"events:{org}"


def inside_topic(place: str) -> str:
    """Returns the topic of new events in an environment, or in a project outside its environments."""
    return f"inside:{place}"


def status_topic(id: str) -> str:
    """Returns the topic of status changes of a service or environment."""
    return f"status:{id}"


def route_topic(service: str) -> str:
    """Returns the topic of changes to a service's routes."""
    return f"{ROUTE_PREFIX}{service}"


def cluster_topic(id: str) -> str:
    """Returns the topic of the creation, change and deletion of a cluster."""
    return f"{CLUSTER_PREFIX}{id}"


def certificate_topic(id: str) -> str:
    """Returns the topic of changes to the certificate of a domain, or to the challenge of its order."""
    return f"{CERTIFICATE_PREFIX}{id}"
