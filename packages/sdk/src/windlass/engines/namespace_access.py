"""Access to the namespace of an environment, for kinds of service whose runs change objects of a Kubernetes
cluster themselves.

Only engines of Kubernetes clusters have the method. A kind finds it with `isinstance(engine,
NamespaceAccess)`, and refuses a deployment on any other engine."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from msgspec import Struct


class NamespaceCredential(Struct, frozen=True, kw_only=True):
    """The credential with which one run calls the API server of a cluster, as an account of the
    environment's namespace."""

    server: str
    """The address of the API server, as the instances of this engine reach it: `https://10.0.0.1:6443`."""
    ca_certificate: str
    """The certificates, as PEM, that the API server is checked against."""
    token: str
    """The token of the account. `revoke_credential` ends it; otherwise, it ends by itself soon after the
    run."""
    namespace: str
    """The namespace of the environment, which exists."""
    server_name: str = ""
    """The name for which the certificate of the API server is; empty for the host in its address."""

    def __repr__(self) -> str:
        return f"NamespaceCredential({self.namespace})"


@runtime_checkable
class NamespaceAccess(Protocol):
    """An engine that runs each environment in a namespace of its own."""

    async def namespace_credential(
        self, environment: str, org: str, *, run: str, seconds: float, has_whole_cluster: bool
    ) -> NamespaceCredential:
        """Returns a new credential for the run `run`, which takes up to `seconds`, for an account that may do
        everything in the namespace of the environment, and nothing elsewhere. It may not change the namespace
        itself. Makes the namespace and the account if they are missing.

        `has_whole_cluster`: the account may also change objects outside of the namespace. Raises EngineError
        if the engine may not give such rights, and EngineUnavailable if the API server does not answer."""
        ...

    async def revoke_credential(self, environment: str, run: str) -> None:
        """Ends the credentials of a run. Succeeds if there are none. Raises EngineError, and
        EngineUnavailable if the API server does not answer."""
        ...
