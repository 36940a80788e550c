"""What services and organizations share below the API has a bound, and a test that one cannot take all of it.

Executors, threads and semaphores are found in the code: a new one fails here until a row says who shares it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from pkgutil import resolve_name
from typing import Final, NamedTuple

import pytest

from tests.source import SOURCES, place

TOP: Final = Path(__file__).parents[2]
NOT_OF_THE_SERVER: Final = {"cli", "demo", "launch"}
"""Packages whose programs run for one person or one service."""
POOLS: Final = {
    "ThreadPoolExecutor",
    "ProcessPoolExecutor",
    "Thread",
    "CommitThread",
    "Semaphore",
    "BoundedSemaphore",
}


class SharedResource(NamedTuple):
    shared_by: str
    bound: str
    """What bounds it, as a name of the code."""
    test: str
    """The test of a pair that may not take it from each other: `file::name`, below `tests`."""
    pools: tuple[str, ...] = ()
    """The modules in which it is an executor, a thread or a semaphore."""


ROWS: Final = {
    "memory and processes of build steps": SharedResource(
        "organizations on one place, and environments of an organization",
        "windlass.base.step_limits:StepLimits",
        "process/builds/test_build_memory.py::test_memory_use_of_one_environment_does_not_end_steps_of_another",
    ),
    "the thread that starts build steps": SharedResource(
        "organizations on one place",
        "windlass.config.settings:Settings.parallel_deployments",
        "running/test_spare_slot.py::test_an_organization_without_running_deployments_gets_a_slot_although_another_uses_all",
        ("base.isolation.step_launcher",),
    ),
    "processes, memory and time of detection": SharedResource(
        "organizations on one server",
        "windlass.base.bounded:CallLimits",
        "process/test_bounded_calls.py::test_endless_calls_delay_only_their_own_organization",
        ("base.bounded.calls",),
    ),
    "calls to the API server of a Kubernetes cluster": SharedResource(
        "services of one cluster",
        "windlass.kubernetes.api:MAX_CALLS",
        "kubernetes/test_watches.py::test_calls_that_were_told_to_wait_do_not_delay_others",
        ("kubernetes.api",),
    ),
    "connections for the output of Pods": SharedResource(
        "services of one cluster",
        "windlass.kubernetes.output:MAX_STREAMS",
        "kubernetes/test_output_limits.py::test_output_beyond_the_limit_of_connections_is_read_in_turns",
        ("kubernetes.output",),
    ),
    "reads of repositories": SharedResource(
        "organizations on one server",
        "windlass.control.context.git_reader:SPARE_READS",
        "hostile/test_listings.py::test_two_organizations_at_their_git_read_limit_leave_capacity_for_a_third",
    ),
    "checks of archives": SharedResource(
        "organizations on one server, and environments of an organization",
        "windlass.control.context.upload_files:MAX_CONCURRENT_CHECKS",
        "running/test_uploads.py::test_checks_of_archives_of_different_organizations_take_turns",
        ("control.context.upload_files",),
    ),
    "threads that wait for the disk": SharedResource(
        "organizations on one server",
        "windlass.base.worker_threads:worker_threads",
        "test_worker_threads.py::test_threads_used_by_deployments_leave_threads_for_requests",
        ("base.worker_threads",),
    ),
    "slots of deployments": SharedResource(
        "organizations on one place",
        "windlass.config.settings:Settings.parallel_deployments",
        "running/test_spare_slot.py::test_an_organization_without_running_deployments_gets_a_slot_although_another_uses_all",
    ),
    "the time of changes, which are stored one after the other": SharedResource(
        "organizations on one database",
        "windlass.store:MAX_REQUEST_COST",
        "running/test_large_changes.py::test_cloning_an_environment_with_too_many_resources_in_one_request_is_refused",
    ),
    "the queue of work": SharedResource(
        "clusters of one server",
        "windlass.store.claim_order:OrganizationQueue",
        "running/test_places_apart.py::test_with_a_shared_queue_a_hanging_engine_would_delay_other_clusters",
    ),
    "places for streams": SharedResource(
        "tokens and organizations on one server",
        "windlass.api.quota:StreamQuota",
        "hostile/test_stream_quota.py::test_an_organization_at_its_stream_limit_leaves_streams_for_another",
    ),
    "commands in instances": SharedResource(
        "tokens and organizations on one server",
        "windlass.api.executions:MAX_COMMANDS",
        "running/test_executions.py::test_commands_of_one_caller_are_limited_and_leave_capacity_for_others",
    ),
    "connections and descriptors of public ports": SharedResource(
        "addresses of visitors",
        "windlass.base.http_in.bounds:READ_AHEAD_BYTES",
        "hostile/test_connections.py::test_one_address_may_use_only_half_of_all_connections",
    ),
    "connections of services to public ports": SharedResource(
        "organizations on one machine",
        "windlass.base.http_in.connections:is_inside",
        "hostile/test_connections.py::test_services_of_one_organization_leave_connections_to_other_organizations_and_visitors",
    ),
    "memory for answers that nobody reads": SharedResource(
        "addresses of visitors",
        "windlass.base.http_in.bounds:READ_AHEAD_BYTES",
        "hostile/test_connections.py::test_unread_answers_are_limited_in_total_size",
    ),
    "requests": SharedResource(
        "tokens",
        "windlass.config.settings:Settings.rate_limit",
        "derived/test_budget.py::test_tokens_do_not_spend_each_others_budgets",
    ),
    "connections of the kernel": SharedResource(
        "environments on one machine",
        "windlass.base.isolation.isolation:NetworkRules.connections",
        "process/hostile/test_networks.py::test_an_environment_cannot_fill_the_table_of_connections_of_the_machine",
    ),
    "connections of the trunk, and its ports for UDP": SharedResource(
        "organizations on one machine",
        "windlass.base.isolation.network:ORG_CONNECTIONS_DIVISOR",
        "process/hostile/test_networks.py::test_an_organization_with_many_environments_leaves_network_connections_for_others",
    ),
    "questions to name servers, and checks of domains": SharedResource(
        "organizations on one server",
        "windlass.control.context.domain_checks:MAX_CHECKS_OF_ORG",
        "domains/test_checks.py::test_an_organization_checks_two_domains_at_a_time",
        ("base.dns.client", "control.context.domain_checks"),
    ),
    "questions to name servers, of the worker": SharedResource(
        "organizations on one server",
        "windlass.control.context.domain_checks:MAX_LOOKS_OF_ORG",
        "domains/test_looks.py::test_domains_whose_name_servers_are_silent_leave_questions_for_another_organization",
    ),
    "places for calls of other servers": SharedResource(
        "organizations on one server",
        "windlass.control.background.worker:CALLING_SHARE",
        "webhooks/test_places.py::test_receivers_that_do_not_answer_leave_places_for_another_organization",
    ),
    "deliveries of git servers in progress": SharedResource(
        "organizations on one server",
        "windlass.control.services.push_intake:MAX_DELIVERIES",
        "pushes/test_webhooks.py::test_the_webhooks_of_one_organization_leave_room_for_another",
    ),
    "deliveries of registries in progress": SharedResource(
        "organizations on one server",
        "windlass.control.services.image_push_intake:MAX_IMAGE_DELIVERIES",
        "registries/test_webhooks.py::test_the_registries_of_one_organization_leave_room_for_another",
    ),
    "questions of proxies about served hosts": SharedResource(
        "organizations on one server",
        "windlass.control.services.served_hosts:MIN_READ_INTERVAL",
        "domains/test_served_hosts.py::test_any_number_of_unknown_names_neither_refuses_nor_delays_served_ones",
    ),
    "room on the disk": SharedResource(
        "services on one machine",
        "windlass.config.settings:Settings.disk_reserve_bytes",
        "test_disk_reserve.py::test_the_instance_that_uses_most_disk_is_ended_if_that_helps",
    ),
    "ports": SharedResource(
        "environments on one machine",
        "windlass.base.isolation.isolation:NetworkRules",
        "process/hostile/test_networks.py::test_an_instance_listening_on_another_services_port_receives_none_of_its_requests",
    ),
    "lookups of names": SharedResource(
        "all that is under way, each in a thread of its own",
        "windlass.base.addresses:in_a_thread",
        "base/test_addresses.py::test_lookups_at_silent_servers_delay_no_other_name",
        ("base.addresses",),
    ),
}

OF_ONE: Final = {
    "base.commit_thread": "the class of the thread below",
    "base.subprocesses": "jobs of one caller",
    "docker.builds.context": "one build",
    "control.services.registry_images": "one request",
    "control.reporting.delivery": "one webhook",
    "process.measurements": "one instance, and no second look at it while the first one hangs",
    "process.spawn": "starts of instances, which take milliseconds; slots of deployments bound them",
    "store.sqlite": "commits, in order; budgets of requests bound them",
}
"""Pools that need no pair: who uses them, or why nobody can hold them."""


def pools() -> Iterator[str]:
    """Yields the modules of the server that make an executor, a thread or a semaphore."""
    for file in SOURCES:
        parts = Path(place(file)).with_suffix("").parts
        if parts[0] not in NOT_OF_THE_SERVER and _makes_a_pool(ast.parse(file.read_text())):
            yield ".".join(parts)


def _makes_a_pool(tree: ast.Module) -> bool:
    called = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    names = (call.attr if isinstance(call, ast.Attribute) else getattr(call, "id", "") for call in called)
    return any(name in POOLS for name in names)


def test_each_limited_pool_of_the_server_is_in_the_table_of_shared_resources():
    known = {pool for row in ROWS.values() for pool in row.pools}
    assert not known & OF_ONE.keys()
    assert {*pools()} == known | OF_ONE.keys()


def test_the_search_finds_a_new_semaphore_or_pool():
    assert _makes_a_pool(ast.parse("import asyncio\nroom = asyncio.Semaphore(2)"))
    assert not _makes_a_pool(ast.parse("room = 2"))


@pytest.mark.parametrize("name", ROWS)
def test_every_shared_resource_has_a_limit_and_a_test(name: str):
    row = ROWS[name]
    assert row.shared_by
    assert resolve_name(row.bound) is not None
    file, _, test = row.test.partition("::")
    tree = ast.parse((TOP / "tests" / file).read_text())
    assert test in {getattr(node, "name", "") for node in tree.body}
