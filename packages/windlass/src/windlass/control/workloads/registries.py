"""Container registries of organizations and their logins. A login is sent only to its own registry."""

from __future__ import annotations

from typing import Final

import msgspec

from windlass.base.aws_signing import AccessKeys
from windlass.control.context.context import Context
from windlass.control.request.hidden_fields import decrypt_hidden
from windlass.core.declare.document import with_hidden
from windlass.core.declare.stored import read_decoded
from windlass.engines.registries import REGISTRY_KINDS, LoginSource, RegistryLogin
from windlass.families.container_registry import ContainerRegistry
from windlass.registries.aws import EcrLogin, ecr_login
from windlass.registries.client import RegistryClient
from windlass.store import Row

_GOOGLE_USER: Final = "_json_key"
_SCALEWAY_USER: Final = "nologin"


def registry_settings(ctx: Context, row: Row) -> ContainerRegistry:
    """Returns the settings of a stored registry, with its secrets."""
    document = with_hidden(msgspec.json.decode(row.body), decrypt_hidden(ctx, row))
    return read_decoded(document, ContainerRegistry)


async def login_of(ctx: Context, spec: ContainerRegistry) -> RegistryLogin | None:
    """Returns the login of a registry; None if it needs none. Raises RegistryFailure."""
    config = spec.config
    match REGISTRY_KINDS[spec.kind].login:
        case LoginSource.AWS:
            return (await ask_aws(ctx, spec)).login
        case LoginSource.GOOGLE:
            return RegistryLogin(_GOOGLE_USER, config.json_credentials or "")
        case LoginSource.SCALEWAY:
            return RegistryLogin(_SCALEWAY_USER, config.scaleway_secret_key or "")
        case LoginSource.CONFIG if config.username:
            return RegistryLogin(config.username, config.password or "")
    return None


def why_not_for_builds(spec: ContainerRegistry) -> str:
    """Returns why images for clusters cannot be pushed to a registry; empty if they can."""
    match REGISTRY_KINDS[spec.kind].login:
        case LoginSource.AWS:
            return (
                "choose a registry of another kind: logins of ECR end after 12 hours, and a node may pull an "
                "image long after that"
            )
        case LoginSource.NONE:
            return "choose a registry that takes images: this one has no login"
    return ""


async def ask_aws(ctx: Context, spec: ContainerRegistry) -> EcrLogin:
    config = spec.config
    keys = AccessKeys(config.access_key_id or "", config.secret_access_key or "", config.region or "")
    return await ecr_login(ctx.out, keys)


async def open_registry(ctx: Context, spec: ContainerRegistry) -> RegistryClient:
    """Returns a client for a registry, with its login. Raises RegistryFailure."""
    login = await login_of(ctx, spec)
    return RegistryClient(ctx.out, spec.kind, spec.url or "", login, ctx.registry_pauses)
