"""The server settings that concern only the Kubernetes engine."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from windlass.base.settings import says


class OwnKubernetesSettings(Struct, frozen=True, kw_only=True):
    kubernetes_config: Annotated[
        str,
        says(
            "Kubeconfig file of the cluster for the engine kubernetes; empty: the service account of the "
            "Pod in which Windlass runs",
            after_setting="docker_networks",
        ),
    ] = ""
    kubernetes_helper_image: Annotated[
        str,
        says(
            "Image with sh, head, wc and base64, which reads the output files of job runs on Kubernetes",
            after_setting="kubernetes_config",
        ),
    ] = "busybox:1.36"
    kubernetes_storage_class: Annotated[
        str,
        says(
            "Storage class of volumes on Kubernetes; empty: the default class of the cluster",
            after_setting="kubernetes_helper_image",
        ),
    ] = ""
    kubernetes_allow_from: Annotated[
        tuple[str, ...],
        says(
            "Namespaces and networks outside of an environment from which its services on the engine "
            "kubernetes accept connections, such as that of an Ingress controller; the namespace in which "
            "Windlass runs is always one of them. A connected cluster has `allow_from` instead",
            after_setting="kubernetes_storage_class",
        ),
    ] = ()
    kubernetes_registry_username: Annotated[
        str,
        says(
            "User name with which the nodes of the engine kubernetes pull from `registry`, best one that "
            "only reads; empty: registry_username",
            after_setting="kubernetes_allow_from",
        ),
    ] = ""
    kubernetes_registry_password: Annotated[
        str,
        says(
            "Password for kubernetes_registry_username",
            secret=True,
            after_setting="kubernetes_registry_username",
        ),
    ] = ""
