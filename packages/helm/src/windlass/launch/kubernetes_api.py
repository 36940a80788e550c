"""Asks the API server of a cluster about the objects of a release. Needs only the standard library, because
it also runs in containers."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any, Final

_TIMEOUT: Final = 15.0
_TAIL_LINES: Final = 20
_MAX_PODS: Final = 200
_MAX_ANSWER_BYTES: Final = 32 * 1024 * 1024
_JOB_LABEL: Final = "job-name"
_USUAL_WAITING: Final = frozenset({"ContainerCreating", "PodInitializing", ""})


class KubernetesApi:
    """Requests with the credential of a run."""

    def __init__(self, credential: Mapping[str, str]) -> None:
        self._server, self._token = credential["server"].rstrip("/"), credential["token"]
        self._namespace = credential["namespace"]
        self._context = ssl.create_default_context(cadata=credential["ca_certificate"] or None)

    def claims(self, release: str) -> list[str]:
        """Returns the names of the claims of a release, whose data stays when the release is removed."""
        return [
            item["metadata"]["name"] for item in self._items("persistentvolumeclaims", _of_release(release))
        ]

    def problems(self, release: str) -> Iterator[str]:
        """Yields why pods of a release do not run."""
        for pod in self._items("pods", _of_release(release))[:_MAX_PODS]:
            if reason := _problem_of(pod):
                yield f"the pod {pod['metadata']['name']} {reason}"

    def failed_hook(self, jobs: list[str]) -> tuple[str, list[str]] | None:
        """Returns the name of the first job that has failed, and the last lines of its pod."""
        for job in jobs:
            for pod in self._items("pods", f"{_JOB_LABEL}={job}"):
                if _problem_of(pod) or pod.get("status", {}).get("phase") == "Failed":
                    return job, self._tail(pod["metadata"]["name"])
        return None

    def _tail(self, pod: str) -> list[str]:
        try:
            text = self._get(f"pods/{pod}/log?tailLines={_TAIL_LINES}")
        except OSError as error:
            return [f"(its log cannot be read: {error})"]
        return text.decode(errors="replace").splitlines()

    def _items(self, kind: str, selector: str) -> list[dict[str, Any]]:
        query = urllib.parse.urlencode({"labelSelector": selector, "limit": _MAX_PODS})
        document = json.loads(self._get(f"{kind}?{query}"))
        items = document.get("items")
        return items if isinstance(items, list) else []

    def _get(self, path: str) -> bytes:
        """Returns the answer to a request in the namespace. Raises OSError."""
        url = f"{self._server}/api/v1/namespaces/{self._namespace}/{path}"
        request = urllib.request.Request(url, headers={"Authorization": f"Bearer {self._token}"})  # noqa: S310 (the address that Windlass names)
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=self._context)
        )
        with opener.open(request, timeout=_TIMEOUT) as answer:
            return bytes(answer.read(_MAX_ANSWER_BYTES))


def _of_release(release: str) -> str:
    return f"app.kubernetes.io/instance={release}"


def _problem_of(pod: Mapping[str, Any]) -> str:
    """Returns why a pod does not run; empty if it runs or has only begun."""
    status = pod.get("status", {})
    containers = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    for container in containers:
        name, state = container.get("name", ""), container.get("state", {})
        waiting, ended = state.get("waiting") or {}, state.get("terminated") or {}
        last = (container.get("lastState") or {}).get("terminated") or {}
        if waiting.get("reason", "") not in _USUAL_WAITING:
            because = waiting.get("message") or last.get("reason") or ""
            return f"waits: {name}: {waiting['reason']}" + (f": {because}" if because else "")
        if ended and (ended.get("exitCode") or ended.get("reason") == "OOMKilled"):
            return f"ended: {name}: {ended.get('reason', 'Error')}, exit code {ended.get('exitCode')}"
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return f"is not placed on a node: {condition.get('message') or condition.get('reason', '')}"
    return ""
