"""Every row of the contract, by the number of its section; a test that keeps one says `@row("4.7")`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pytest

row = pytest.mark.row


def _rows(section: str, *names: str) -> tuple[str, ...]:
    return tuple(f"{section}.{name}" for name in names)


ROWS: Final = (
    *_rows("1", "style", "json", "base", "timestamps"),
    # Fields
    *_rows("2.1", "name", "country_code", "country", "city", "arm_supported", "zones", "results"),
    *_rows("2.2", "id", "created_at", "updated_at"),
    *_rows("2.3", "id", "name", "description", "created_at", "updated_at"),
    *_rows("2.4", "id", "name", "mode", "cluster_id", "created_at"),
    *_rows("2.5", "name", "git_repository", "git_repository.url", "git_repository.branch"),
    *_rows("2.5", "build_mode", "dockerfile_path", "cpu", "memory"),
    *_rows("2.5", "min_running_instances", "max_running_instances"),
    *_rows("2.5", "ports", "ports.internal_port", "ports.external_port", "ports.protocol"),
    *_rows("2.5", "ports.publicly_accessible"),
    *_rows("2.6", "id", "state", "service_deployment_status", "last_deployment_date"),
    *_rows("2.7", "id", "status", "application_id", "created_at"),
    *_rows("2.8", "key", "value", "secret"),
    *_rows("2.9", "name", "type", "version", "mode", "cpu", "memory", "storage"),
    *_rows("2.10", "target_url", "events", "enabled"),
    *_rows("2.11", "id", "name", "created_at"),
    # States
    *_rows("3", "RUNNING", "STOPPED", "ERROR", "QUEUED", "UP_TO_DATE"),
    # Endpoints
    *_rows("4", *map(str, range(1, 16))),
    *_rows("4", "authentication", "1.200", "1.401", "1.403", "1.404", "rule 1", "rule 2", "rule 3"),
    *_rows("4", "page", "page_size", "results", "pagination.page", "pagination.page_size"),
    *_rows("4", "pagination.total_count", "pagination.total_pages", "regions without pagination"),
    # Authentication
    *_rows("5", "header", "Token", "Bearer", "expiration", "choices", "shown once"),
    *_rows("5", "Admin", "Read", "Deploy", "Write", "401", "403"),
    # Events
    *_rows("6", "webhook", "DEPLOYMENT_STARTED", "DEPLOYMENT_SUCCEEDED", "DEPLOYMENT_FAILED"),
    *_rows("6", "event_type", "payload.application_id", "acknowledged by 200"),
    # Errors
    *_rows("7", "status", "error", "message"),
    *_rows("7", "200", "201", "204", "400", "401", "403", "404", "429", "500"),
    # Limits
    *_rows("8", "1000 an hour", "per token", "X-RateLimit-Limit", "X-RateLimit-Remaining"),
    *_rows("8", "X-RateLimit-Reset", "429"),
    # Versioning
    *_rows("9", "paths", "1.0.4", "major version"),
)

LATER: Final[Mapping[str, str]] = {}
"""Rows that Windlass does not keep yet, and why. One that a test names has no place here."""
