"""Asks the API server of a cluster about the objects of a release. Needs only the standard library, because
it also runs in containers."""

from __future__ import annotations

import json
import re
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

_TIMEOUT: Final = 15.0
_TAIL_LINES: Final = 20
_MAX_PODS: Final = 200
_MAX_ITEMS: Final = 2_000
_MAX_ANSWER_BYTES: Final = 32 * 1024 * 1024
_RELEASE_LABEL: Final = "app.kubernetes.io/instance"
_RELEASE_ANNOTATION: Final = "meta.helm.sh/release-name"
_JOB_LABEL: Final = "job-name"
_NO_SUCH_OBJECT: Final = 404
_PAUSED: Final = "windlass.dev/paused-replicas"
"""The annotation with the number of pods before an object was paused."""
SCALED_KINDS: Final = {"Deployment": "deployments", "StatefulSet": "statefulsets"}
"""The kinds of objects with a number of pods, and their names in paths."""
WATCHED_KINDS: Final = {**SCALED_KINDS, "DaemonSet": "daemonsets"}
"""The kinds of objects whose changes by others are told."""
_USUAL_WAITING: Final = frozenset({"ContainerCreating", "PodInitializing", ""})


class _NamedContext(ssl.SSLContext):
    """Checks certificates for a name other than that in the address."""

    server_name = ""

    def wrap_socket(self, *arguments: Any, **options: Any) -> ssl.SSLSocket:
        if self.server_name:
            options["server_hostname"] = self.server_name
        return super().wrap_socket(*arguments, **options)


def _trust(credential: Mapping[str, str]) -> ssl.SSLContext:
    context = _NamedContext(ssl.PROTOCOL_TLS_CLIENT)  # requires a valid certificate
    context.server_name = credential["server_name"]
    if authority := credential["ca_certificate"]:
        context.load_verify_locations(cadata=authority)
    else:
        context.load_default_certs()
    return context


class KubernetesApi:
    """Requests with the credential of a run."""

    def __init__(self, credential: Mapping[str, str]) -> None:
        self._server, self._token = credential["server"].rstrip("/"), credential["token"]
        self._namespace = credential["namespace"]
        self._context = _trust(credential)

    def claims(self, release: str, sets: Sequence[str]) -> list[str]:
        """Returns the names of the claims of a release, whose data may stay when the release is removed:
        those with its label or annotation, and those of its StatefulSets, which charts need not label."""
        templates = [(template, name) for name in sets for template in self._claim_templates(name)]
        return [
            item["metadata"]["name"]
            for item in self._items("persistentvolumeclaims", "")
            if _is_of_release(item["metadata"], release)
            or any(
                re.fullmatch(rf"{re.escape(template)}-{re.escape(name)}-[0-9]+", item["metadata"]["name"])
                for template, name in templates
            )
        ]

    def all_claims(self) -> list[str]:
        """Returns the names of all claims in the namespace."""
        return [item["metadata"]["name"] for item in self._items("persistentvolumeclaims", "")]

    def _claim_templates(self, stateful_set: str) -> list[str]:
        spec = self._object("StatefulSet", stateful_set).get("spec") or {}
        return [item["metadata"]["name"] for item in spec.get("volumeClaimTemplates") or ()]

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

    def forget_revision(self, release: str, number: int) -> None:
        """Deletes the record of a revision that was never finished."""
        path = f"/api/v1/namespaces/{self._namespace}/secrets/sh.helm.release.v1.{release}.v{number}"
        try:
            self._send("DELETE", path)
        except urllib.error.HTTPError as error:
            if error.code != _NO_SUCH_OBJECT:
                raise

    def pause(self, kind: str, name: str) -> int:
        """Sets the number of pods of an object to 0 and keeps it in an annotation. Returns the former number;
        0 if the object is gone or has none."""
        document = self._object(kind, name)
        count = int((document.get("spec") or {}).get("replicas") or 0)
        if count:
            self._scale(kind, name, 0, str(count))
        return count

    def resume(self, kind: str, name: str) -> int:
        """Sets the number of pods to what it was before `pause`. Returns it; 0 if it was not paused."""
        metadata = self._object(kind, name).get("metadata") or {}
        count = int((metadata.get("annotations") or {}).get(_PAUSED) or 0)
        if count:
            self._scale(kind, name, count, None)
        return count

    def generation(self, kind: str, name: str) -> Iterator[tuple[int, int]]:
        """Yields the number of the last change of an object, and its number of pods; nothing if the object is
        gone."""
        if document := self._object(kind, name):
            replicas = (document.get("spec") or {}).get("replicas")
            yield int(document["metadata"]["generation"]), 1 if replicas is None else int(replicas)

    def _object(self, kind: str, name: str) -> dict[str, Any]:
        """Returns an object; empty if there is none."""
        try:
            document = json.loads(self._send("GET", self._path_of(kind, name)))
        except urllib.error.HTTPError as error:
            if error.code != _NO_SUCH_OBJECT:
                raise
            return {}
        return document if isinstance(document, dict) else {}

    def _scale(self, kind: str, name: str, count: int, former: str | None) -> None:
        change = {"metadata": {"annotations": {_PAUSED: former}}, "spec": {"replicas": count}}
        self._send("PATCH", self._path_of(kind, name), json.dumps(change).encode())

    def _path_of(self, kind: str, name: str) -> str:
        return f"/apis/apps/v1/namespaces/{self._namespace}/{WATCHED_KINDS[kind]}/{name}"

    def _tail(self, pod: str) -> list[str]:
        try:
            text = self._get(f"pods/{pod}/log?tailLines={_TAIL_LINES}")
        except OSError as error:
            return [f"(its log cannot be read: {error})"]
        return text.decode(errors="replace").splitlines()

    def _items(self, kind: str, selector: str) -> list[dict[str, Any]]:
        query = urllib.parse.urlencode({"labelSelector": selector, "limit": _MAX_ITEMS})
        document = json.loads(self._get(f"{kind}?{query}"))
        items = document.get("items")
        return items if isinstance(items, list) else []

    def _get(self, path: str) -> bytes:
        """Returns an object or a list of the namespace. Raises OSError."""
        return self._send("GET", f"/api/v1/namespaces/{self._namespace}/{path}")

    def _send(self, method: str, path: str, body: bytes = b"") -> bytes:
        """Returns the answer to a request. Raises OSError."""
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/merge-patch+json"}
        request = urllib.request.Request(  # noqa: S310 (the address that Windlass names)
            self._server + path, data=body or None, headers=headers, method=method
        )
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=self._context)
        )
        with opener.open(request, timeout=_TIMEOUT) as answer:
            return bytes(answer.read(_MAX_ANSWER_BYTES))


def _is_of_release(metadata: Mapping[str, Any], release: str) -> bool:
    label, annotation = _RELEASE_LABEL, _RELEASE_ANNOTATION
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    return labels.get(label) == release or annotations.get(annotation) == release


def _of_release(release: str) -> str:
    return f"{_RELEASE_LABEL}={release}"


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
