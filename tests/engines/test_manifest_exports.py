"""An environment leaves Windlass: its manifests are applied to a real cluster with kubectl, and run there."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path
from typing import Any

import pytest

from tests.engines.test_kubernetes_builds import connect
from tests.faults.inside import Inside, inside
from tests.kubernetes.cluster import Cluster, shared_cluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

SERVES = """\
echo "$GREETING $TOKEN $(cat /etc/shop/motto)" > /data/index.html
exec httpd -f -p 8080 -h /data
"""
ASKS = """\
until wget -q -O - "http://$WEB:8080/" 2>/dev/null; do sleep 1; done
exec sleep 1000
"""


async def test_an_exported_environment_runs_in_another_namespace_without_windlass(tmp_path: Path):
    namespace = f"left-{uuid.uuid4().hex[:8]}"
    with shared_cluster() as cluster:
        network = cluster.network
        allowed = [f"{network.node}/32", network.pods]
        async with inside(tmp_path / "windlass", outbound_allow=allowed) as there:
            await connect(there, cluster)
            await make_shop(there, cluster.registry.box())
            path = f"/environment/{there.environment}/manifestExport"
            file = (await there.call("GET", path)).body.decode()
        file = file.replace("__REPLACE_WEB_TOKEN__", 'a \\"b\\" \\\\').replace(
            "__REPLACE_WEB_MOTTO__", "be: kind"
        )
        cluster.add_namespace(namespace)
        try:
            await asyncio.to_thread(runs_in, cluster, namespace, file)
        finally:
            cluster.ask(f"/api/v1/namespaces/{namespace}", method="DELETE")


def runs_in(cluster: Cluster, namespace: str, file: str) -> None:
    where = f"--namespace={namespace}"

    def said(name: str) -> str:
        return cluster.kubectl("logs", where, name)

    applied = cluster.kubectl("apply", where, "--filename=-", given=file)
    assert "unchanged" not in applied
    cluster.kubectl("rollout", "status", where, "--timeout=100s", "statefulset/web")
    cluster.kubectl("rollout", "status", where, "--timeout=100s", "deployment/asks")
    cluster.wait(
        lambda: said("deployment/asks") == 'hello a "b" \\ be: kind\n', "the answer of the neighbour"
    )
    cluster.kubectl("wait", where, "--for=condition=complete", "--timeout=100s", "job/once")
    assert said("job/once") == "once done\n"
    again = cluster.kubectl("apply", where, "--filename=-", given=file)
    changed = [line for line in again.splitlines() if not line.endswith(" unchanged")]
    # kubectl does not compare the field `stringData`.
    assert all(line.startswith("secret/") for line in changed), changed


async def make_shop(there: Inside, image: str) -> None:
    """Services with a volume, a file, secrets, a neighbour, a job and a timetable, and a database."""
    name, _, digest = image.partition("@")
    assert digest
    source: dict[str, Any] = {"image_name": name, "tag": "1.36"}

    async def make(family: str, **fields: Any) -> str:
        made = await there.call("POST", f"/environment/{there.environment}/{family}", fields)
        assert made.status == 201, made
        return f"/{family}/{made['id']}"

    web = await make(
        "container",
        name="web",
        **source,
        memory=64,
        arguments=["sh", "-c", SERVES],
        ports=[{"internal_port": 8080, "protocol": "HTTP"}],
        storage=[{"size": 1, "mount_point": "/data"}],
        healthchecks={"readiness_probe": {"type": {"http": {"path": "/", "port": 8080}}}},
    )
    asks = await make("container", name="asks", **source, memory=64, arguments=["sh", "-c", ASKS])
    host = f"QOVERY_CONTAINER_Z{web.rpartition('/')[2][:8].upper()}_HOST_INTERNAL"
    for path, variable in (
        (f"{web}/environmentVariable", {"key": "GREETING", "value": "hello"}),
        (f"{web}/secret", {"key": "TOKEN", "value": "a"}),
        (f"{web}/secret", {"key": "MOTTO", "value": "b", "mount_path": "/etc/shop/motto"}),
        (f"{asks}/environmentVariable", {"key": "WEB", "value": f"{{{{{host}}}}}"}),
    ):
        made = await there.call("POST", path, variable)
        assert made.status == 201, made
    for job, schedule in (
        ("once", {"on_start": {"arguments": ["sh", "-c", "echo $0 done", "once"]}}),
        ("nightly", {"cronjob": {"scheduled_at": "0 3 * * *", "arguments": ["true"]}}),
    ):
        await make("job", name=job, source={"image": source}, schedule=schedule)
    await make("database", name="orders", type="POSTGRESQL", version="16", mode="CONTAINER")
