"""Checks whether a cluster has what services need. Nothing is changed."""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from collections.abc import AsyncIterator
from typing import Final

from msgspec import Struct

from windlass.base.addresses import Reach
from windlass.engines.engine import EngineError
from windlass.engines.findings import Finding, Level, fail, ok, warn
from windlass.engines.provider import EngineReport
from windlass.kubernetes import names, paths
from windlass.kubernetes.access import ClusterAccess
from windlass.kubernetes.api import ClusterApi, ClusterRefusal, ClusterUnavailable
from windlass.kubernetes.cluster import cluster_id
from windlass.kubernetes.documents import ObjectList, Pod
from windlass.kubernetes.instances import is_running

_CONNECT_SECONDS: Final = 20.0
OLDEST_VERSION: Final = (1, 34)
_VERSION_PATTERN: Final = re.compile(r"([0-9]{1,4})\.([0-9]{1,4})\+?")
"""Major and minor number; some vendors write `36+`."""
_DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
NEEDED: Final = (
    ("", "namespaces", "", "create"),
    ("", "pods", "", "create"),
    ("", "pods", "", "watch"),
    ("", "pods", "log", "get"),
    ("", "pods", "exec", "create"),
    ("", "secrets", "", "create"),
    ("", "services", "", "create"),
    ("", "services", "", "watch"),
    ("", "persistentvolumeclaims", "", "create"),
    ("apps", "deployments", "", "create"),
    ("apps", "statefulsets", "", "create"),
    ("apps", "replicasets", "", "watch"),
    ("apps", "daemonsets", "", "watch"),
    ("batch", "jobs", "", "watch"),
    ("networking.k8s.io", "networkpolicies", "", "create"),
    ("discovery.k8s.io", "endpointslices", "", "watch"),
)
"""Group, resource, subresource and verb of rights without which services cannot run."""


class _ServerVersion(Struct, frozen=True, rename="camel"):
    git_version: str = ""
    major: str = ""
    minor: str = ""


class _PodList(Struct, frozen=True):
    items: list[Pod] = []


class _ReviewStatus(Struct, frozen=True):
    allowed: bool = False


class _Review(Struct, frozen=True):
    status: _ReviewStatus = _ReviewStatus()


async def check_cluster(
    access: ClusterAccess, allowed_addresses: Reach, name: str = ""
) -> AsyncIterator[Finding]:
    api = ClusterApi(access, allowed_addresses, name)
    try:
        yield await _check_version(api)
        yield await _check_rights(api)
        yield await _check_storage(api)
        yield await _check_usage(api)
    except ClusterUnavailable as away:
        yield fail("Cluster", str(away), "start the cluster, or correct its kubeconfig")
    finally:
        await api.close()


async def refuse_unusable(access: ClusterAccess, allowed_addresses: Reach, name: str) -> str:
    """Returns the id of a cluster. Raises EngineError if services cannot run there."""
    api = ClusterApi(access, allowed_addresses, name)
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            for check in (_check_version, _check_rights):
                finding = await check(api)
                if finding.level is Level.FAIL:
                    raise EngineError(f"{finding.advice}: {finding.found}")
            return await cluster_id(api)
    except TimeoutError as error:
        raise EngineError(f"its API server does not answer within {_CONNECT_SECONDS:.0f} seconds") from error
    except (ClusterUnavailable, ClusterRefusal) as error:
        raise EngineError(str(error)) from error
    finally:
        await api.close()


async def report_of(
    access: ClusterAccess, allowed_addresses: Reach, name: str, installation: str
) -> EngineReport:
    """Returns the state of a cluster, and the number of running instances by service. Raises EngineError."""
    api = ClusterApi(access, allowed_addresses, name)
    try:
        before = time.time()
        facts = await api.about()
        now = (before + time.time()) / 2
        selector = {"labelSelector": names.selector(installation)}
        pods = await api.get("/api/v1/pods", _PodList, selector)
        return EngineReport(
            title=f"Kubernetes {facts.version.removeprefix('v')}",
            ahead=facts.clock - now if facts.clock else 0.0,
            instances=Counter(pod.label(names.SERVICE) for pod in pods.items if is_running(pod)),
            certificate_end=facts.certificate_end,
        )
    except (ClusterUnavailable, ClusterRefusal) as error:
        raise EngineError(str(error)) from error
    finally:
        await api.close()


async def _check_version(api: ClusterApi) -> Finding:
    try:
        version = await api.get("/version", _ServerVersion)
    except ClusterRefusal as refused:
        return fail(
            "Cluster version", str(refused), "check the address: it must be that of a Kubernetes API server"
        )
    match = _VERSION_PATTERN.fullmatch(f"{version.major}.{version.minor}")
    if match is None or (int(match[1]), int(match[2])) < OLDEST_VERSION:
        least = ".".join(map(str, OLDEST_VERSION))
        return fail(
            "Cluster version",
            version.git_version[:100],
            f"update the cluster: Windlass needs {least} or newer",
        )
    return ok("Cluster version", version.git_version)


async def _check_rights(api: ClusterApi) -> Finding:
    missing = [
        f"{verb} {resource}{f'/{sub}' if sub else ''}"
        for group, resource, sub, verb in NEEDED
        if not await _may(api, group, resource, sub, verb)
    ]
    if missing:
        return fail(
            "Rights in the cluster",
            f"missing: {', '.join(missing)}",
            "bind a ClusterRole with them to the account",
        )
    return ok("Rights in the cluster", "all that services need")


async def _may(api: ClusterApi, group: str, resource: str, subresource: str, verb: str) -> bool:
    wanted = {"group": group, "resource": resource, "subresource": subresource, "verb": verb}
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": wanted},
    }
    try:
        review = await api.create("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body, _Review)
    except ClusterRefusal:
        return False
    return review.status.allowed


async def _check_storage(api: ClusterApi) -> Finding:
    try:
        found = (await api.get("/apis/storage.k8s.io/v1/storageclasses", ObjectList)).items
    except ClusterRefusal as refused:
        return warn("Storage class", str(refused), "give the account the right to list storage classes")
    usual = [each.metadata.name for each in found if each.annotation(_DEFAULT_CLASS) == "true"]
    if usual:
        return ok("Storage class", usual[0])
    others = ", ".join(each.metadata.name for each in found) or "none"
    return warn(
        "Storage class",
        f"there is no default class ({others})",
        "set kubernetes_storage_class: without a class, services cannot have volumes",
    )


async def _check_usage(api: ClusterApi) -> Finding:
    try:
        nodes = (await api.get(paths.NODES, ObjectList)).items
        if nodes:
            await api.raw("GET", f"{paths.NODES}/{nodes[0].metadata.name}/proxy/stats/summary")
    except ClusterRefusal as refused:
        return warn(
            "Usage",
            str(refused),
            "give the account the rights `list nodes` and `get nodes/proxy`: without them, usage is unknown",
        )
    return ok("Usage", f"reported by {len(nodes)} nodes")
