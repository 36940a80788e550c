"""The engine providers of installed packages, and the choice of the provider in use."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

from windlass.base.bounded import BoundedCalls
from windlass.base.entry_points import entry_points
from windlass.base.environment import for_tools
from windlass.base.subprocesses import in_thread
from windlass.builders.publisher import OpenPublisher
from windlass.config import BadSetting, Settings, folders_of_services, settings_file
from windlass.engines.provider import PROVIDERS_GROUP, EngineProvider
from windlass.engines.rollout.removed_generations import RECORDS_FOLDER
from windlass.install import mark


@cache
def providers() -> Mapping[str, EngineProvider]:
    """Returns all providers by name, in the order in which `auto` tries them."""
    found: list[EngineProvider] = [entry.load()() for entry in entry_points(PROVIDERS_GROUP)]
    return {provider.name: provider for provider in sorted(found, key=lambda provider: -provider.rank)}


def names() -> str:
    """Returns the values of the setting `engine`, for an error message."""
    *some, last = ("auto", *sorted(providers(), reverse=True))
    return f"{', '.join(some)} or {last}"


def own_settings(provider: EngineProvider, settings: Settings) -> Any:
    """Returns the settings of a provider, as an instance of its settings type."""
    file = settings_file()
    known = {
        "settings_file": str(file or ""),
        "private_files": private_files(settings),
        "folders_of_services": folders_of_services(settings),
    }
    wanted = provider.settings_type.__struct_fields__
    given = {name: known[name] if name in known else getattr(settings, name) for name in wanted}
    return provider.settings_type(**given)


def private_files(settings: Settings) -> tuple[str, ...]:
    """Returns the operator's files and folders that services must not read."""
    named = [for_tools().get("HOME", ""), settings.access_log_file, settings.gateway_access_log_file]
    if (file := settings_file()) is not None:
        named += [str(file), str(file.parent)]
    return tuple(filter(None, named))


def publisher_opener(settings: Settings, calls: BoundedCalls) -> OpenPublisher | None:
    """Returns what builds images for engines that cannot build; None if no installed package does."""
    for provider in providers().values():
        if open_publisher := getattr(provider, "open_publisher", None):
            return partial(open_publisher, own_settings(provider, settings), calls)
    return None


async def provider_in_use(settings: Settings) -> EngineProvider:
    """Returns the provider of the engine in use. Raises BadSetting if no such provider is installed."""
    name = await choose_engine(settings)
    if name not in providers():
        raise BadSetting(f"engine: choose {names()}: there is no engine {name}")
    return providers()[name]


async def choose_engine(settings: Settings) -> str:
    """Resolves `auto` to the engine that the data directory was used with, or to the first engine present.

    The previous engine has priority, so that a Docker that was installed later does not take over services
    whose data is on the other engine.
    """
    if settings.engine != "auto":
        return settings.engine
    if kept := await in_thread(kept_engine, settings):
        return kept
    for provider in providers().values():
        if (await provider.presence(own_settings(provider, settings))).is_there:
            return provider.name
    raise BadSetting("engine: install a package with an engine, such as windlass-process: none is there")


def kept_engine(settings: Settings) -> str:
    """Returns the engine that this data directory was used with; empty if there was none.

    Returns an empty string for an unreadable mark too. Other steps of the start refuse the mark, and `doctor`
    reports it.
    """
    with suppress(OSError, BadSetting):
        seen = mark.read(settings)
        return seen.engine if seen and seen.engine in providers() else ""
    return ""


def forget_removals(settings: Settings) -> None:
    """Deletes the records of removed generations, which reject late calls of earlier servers.

    After the database was replaced, the same generations or their numbers may be needed again.
    """
    for provider in providers().values():
        for folder in provider.folders(Path(settings.data_dir)):
            shutil.rmtree(folder / RECORDS_FOLDER, ignore_errors=True)
