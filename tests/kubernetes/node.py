"""A real node for a test cluster: Debian's containerd, runc and network plugins, a kubelet, kube-proxy, names
of services, and a registry of images.

`keeper.py` starts it in namespaces of its own, where the usual paths and ports are free."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Final, NamedTuple

from tests.kubernetes.control_plane import Addresses, ControlPlane
from tests.kubernetes.images import archive, box
from tests.kubernetes.programs import COREDNS, PLUGINS

MOST_CLUSTERS: Final = 16
NODE: Final = "node1"
PAUSE: Final = "windlass.test/pause:1"
REGISTRY_PORT: Final = 5000
USUAL_PLACES: Final = (
    "/run/containerd",
    "/tmp/hostpath_pv",  # the volumes of claims
    "/var/lib/cni",
    "/var/lib/kubelet",
    "/var/log/containers",
    "/var/log/pods",
)
"""Folders with fixed names, which would otherwise be those of the machine."""
_CGROUPS: Final = Path("/sys/fs/cgroup")


class Network(NamedTuple):
    """The networks of the cluster of this number, and its link to the machine."""

    number: int

    @property
    def link(self) -> str:
        return f"windlass-k8s-{self.number}"

    @property
    def machine(self) -> str:
        """The address at which pods reach this machine."""
        return f"10.212.{self.number}.1"

    @property
    def node(self) -> str:
        return f"10.212.{self.number}.2"

    @property
    def pods(self) -> str:
        return f"10.214.{self.number * 16}.0/20"

    @property
    def services(self) -> str:
        return f"10.215.{self.number * 16}.0/20"

    @property
    def registry(self) -> str:
        return f"{self.node}:{REGISTRY_PORT}"


def trust_registry(cluster: Path, host: str, url: str) -> None:
    """Lets the node of a cluster pull images of a host from a registry at this address, without TLS."""
    folder = cluster / "registries" / host
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "hosts.toml").write_text(
        f'server = "{url}"\n[host."{url}"]\ncapabilities = ["pull", "resolve"]\n'
    )


class Node:
    def __init__(self, folder: Path, network: Network) -> None:
        self._folder = folder
        self._network = network
        addresses = Addresses(network.node, services=network.services, pods=network.pods)
        self.plane = ControlPlane(folder, addresses)
        self._socket = folder / "containerd.sock"

    def start(self) -> None:
        self._join_network()
        self._cover_usual_places()
        self.plane.prepare()
        self._start_containerd()  # beside the control plane
        self._start_registry()
        self.plane.start_etcd()
        self.plane.start_api_server()
        self.plane.start_controllers()
        self._start_kubelet()
        self._start_proxy()
        self._start_names()
        self._add_storage_class()
        self.plane.wait(self._import_pause_image, "containerd")
        self.plane.wait(self._is_ready, "the node")
        self.plane.wait_for_default_account()

    def _join_network(self) -> None:
        network = self._network
        for command in (
            "ip link set lo up",
            f"ip addr add {network.node}/24 dev eth0",
            "ip link set eth0 up",
            f"ip route add default via {network.machine}",
        ):
            subprocess.run(command.split(), check=True)
        Path("/proc/sys/net/ipv4/ip_forward").write_text("1")

    def _cover_usual_places(self) -> None:
        for place in map(Path, USUAL_PLACES):
            own = self._folder / "places" / place.name
            own.mkdir(parents=True)
            place.mkdir(parents=True, exist_ok=True)
            subprocess.run(["mount", "--bind", own, place], check=True)

    def _start_containerd(self) -> None:
        plugins = self._folder / "cni"
        plugins.mkdir()
        addresses = {
            "type": "host-local",
            "ranges": [[{"subnet": self._network.pods}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        }
        bridge = {
            "type": "bridge",
            "bridge": "pods",
            "isGateway": True,
            "hairpinMode": True,
            "ipam": addresses,
        }
        ports = {"type": "portmap", "capabilities": {"portMappings": True}}
        configuration = {"cniVersion": "0.4.0", "name": "pods", "plugins": [bridge, ports]}
        (plugins / "10-pods.conflist").write_text(json.dumps(configuration))
        for host in (self._network.registry, "docker.io"):  # official images of tests are there too
            trust_registry(self._folder, host, f"http://{self._network.registry}")
        file = self._folder / "containerd.toml"
        # A machine without CAP_SYS_RESOURCE cannot lower the score: then no pod would start.
        file.write_text(f"""version = 2
root = "{self._folder}/containerd"
state = "{self._folder}/containerd-state"
[grpc]
  address = "{self._socket}"
[plugins."io.containerd.internal.v1.opt"]
  path = "{self._folder}/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE}"
  restrict_oom_score_adj = true
  stream_server_address = "127.0.0.1"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{PLUGINS}"
    conf_dir = "{plugins}"
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "{self._folder}/registries"
""")
        self.plane.spawn("containerd", f"--config={file}", "--log-level=warn", program="containerd")

    def _import_pause_image(self) -> bool:
        """Each pod has a container that only sleeps."""
        file = self._folder / "pause.tar"
        if not file.exists():
            file.write_bytes(archive(PAUSE, box("sleep", "2147483647")))
        command = ["ctr", f"--address={self._socket}", "--namespace=k8s.io", "images", "import", str(file)]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    def _start_registry(self) -> None:
        storage = {"filesystem": {"rootdirectory": f"{self._folder}/images"}, "delete": {"enabled": True}}
        file = self._folder / "registry.json"
        http = {"addr": self._network.registry, "secret": "of-the-tests"}
        settings = {"version": 0.1, "log": {"level": "error"}, "storage": storage, "http": http}
        file.write_text(json.dumps(settings))
        self.plane.spawn("docker-registry", "serve", str(file), program="docker-registry")

    def _start_kubelet(self) -> None:
        make_cgroup(self._network)
        resolver = self._folder / "resolv.conf"
        resolver.write_text(f"nameserver {self._network.node}\n")
        settings = {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": self._network.node,
            "containerRuntimeEndpoint": f"unix://{self._socket}",
            "clusterDNS": [self._network.node],
            "clusterDomain": "cluster.local",
            "resolvConf": str(resolver),
            # Its port is in a network of its own, and the API server shows no certificate.
            "authentication": {"anonymous": {"enabled": True}},
            "authorization": {"mode": "AlwaysAllow"},
            # Another kubelet of this machine would end pods below a group of both.
            "cgroupRoot": f"/{cgroup(self._network)}",
            "cgroupDriver": "cgroupfs",
            "failCgroupV1": False,
            "failSwapOn": False,
            "enforceNodeAllocatable": [],
            # A machine with a full disk is no reason to end pods or to remove images.
            "evictionHard": {
                "memory.available": "100Mi",
                "nodefs.available": "1%",
                "imagefs.available": "1%",
                "nodefs.inodesFree": "1%",
            },
            "imageGCHighThresholdPercent": 100,
            "maxPods": 250,
            "crashLoopBackOff": {"maxContainerRestartPeriod": "1s"},
            "registryPullQPS": 0,
            "eventRecordQPS": 0,
            "kubeAPIQPS": 200,
            "kubeAPIBurst": 400,
            "serializeImagePulls": False,
        }
        file = self._folder / "kubelet.json"
        file.write_text(json.dumps(settings))
        self.plane.spawn(
            *("kubelet", f"--kubeconfig={self.plane.config_of('node')}", f"--config={file}"),
            *(f"--node-ip={self._network.node}", f"--hostname-override={NODE}"),
        )

    def _start_proxy(self) -> None:
        self.plane.spawn(
            *("kube-proxy", f"--kubeconfig={self.plane.config_of('proxy')}", "--proxy-mode=iptables"),
            *(
                f"--cluster-cidr={self._network.pods}",
                f"--hostname-override={NODE}",
                "--bind-address=127.0.0.1",
            ),
            # They are the same for all networks of a machine.
            *("--conntrack-max-per-core=0", "--conntrack-tcp-timeout-established=0s"),
            "--conntrack-tcp-timeout-close-wait=0s",
        )

    def _start_names(self) -> None:
        file = self._folder / "Corefile"
        file.write_text(f"""cluster.local:53 {{
    bind {self._network.node}
    errors
    kubernetes cluster.local {{
        kubeconfig {self.plane.config_of("dns")}
        ttl 0
    }}
}}
""")
        self.plane.spawn("coredns", f"-conf={file}", program=COREDNS)

    def _add_storage_class(self) -> None:
        """Claims are bound to folders of the node."""
        body = {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {
                "name": "folders",
                "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
            },
            "provisioner": "kubernetes.io/host-path",
        }
        self.plane.apply("/apis/storage.k8s.io/v1/storageclasses/folders", body)

    def _is_ready(self) -> bool:
        node = self.plane.ask(f"/api/v1/nodes/{NODE}")
        return any(
            each["type"] == "Ready" and each["status"] == "True" for each in node["status"]["conditions"]
        )


def cgroup(network: Network) -> str:
    """The name of the control group that all pods of a cluster are in."""
    return f"windlass-cluster-{network.number}"


def make_cgroup(network: Network) -> None:
    for group in cgroups(cgroup(network)):
        group.mkdir(exist_ok=True)
        for setting in ("cpuset.cpus", "cpuset.mems"):  # a group of version 1 begins without processors
            if group.parent.name == "cpuset":
                (group / setting).write_text((group.parent / setting).read_text())


def cgroups(name: str) -> list[Path]:
    """Returns a control group in each hierarchy of version 1, or in the only one of version 2."""
    if (_CGROUPS / "cgroup.controllers").exists():
        return [_CGROUPS / name]
    return [folder / name for folder in _CGROUPS.iterdir() if folder.is_dir() and not folder.is_symlink()]


def remove_cgroup(name: str) -> None:
    """Removes a control group without processes, and those below it."""
    for group in cgroups(name):
        for folder, _, _ in os.walk(group, topdown=False):
            Path(folder).rmdir()
