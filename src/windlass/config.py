"""Every setting, once: name, default, meaning. Flags win over environment, environment over the TOML file.

The only place that reads the environment.
"""

from __future__ import annotations

import os
import shlex
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta, Struct

from windlass.core.words.naming import PLACE_NAME

DATABASE = "windlass.db"
PREFIX = "WINDLASS_"
_FILE = PREFIX + "CONFIG"
# Variables of a client, and the one that names the file of settings.
_NOT_SETTINGS = {_FILE, PREFIX + "URL", PREFIX + "TOKEN"}


class BadSetting(Exception):
    """A setting is wrong. The message names it and says what it should be."""


def _says(description: str, *, secret: bool = False, opens: str = "", **limits: Any) -> Meta:
    """Describes a setting. `opens` names the group that begins with it and goes on until another opens."""
    return Meta(description=description, extra={"secret": secret, "opens": opens}, **limits)


Words = tuple[str, ...]


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    host: Annotated[str, _says("Address to listen on", opens="Addresses")] = "127.0.0.1"
    port: Annotated[int, _says("Port to listen on; 0 picks a free one", ge=0, le=65_535)] = 8080
    public_url: Annotated[
        str, _says("Address at which clients reach this server, such as https://windlass.example.com")
    ] = ""
    leave_seconds: Annotated[
        float,
        _says("How long a server that stops still serves, with /readyz at 503", ge=0),
    ] = 0.0
    gateway_host: Annotated[str, _says("Address on which public ports of services are reached")] = "127.0.0.1"
    gateway_port: Annotated[
        int, _says("Port for HTTP to services by host name; 0 picks a free one", ge=0, le=65_535)
    ] = 8081
    gateway_domain: Annotated[
        str, _says("Names of services end with this, as in shop-production.localhost")
    ] = "localhost"
    trusted_proxies: Annotated[Words, _says("Addresses whose X-Forwarded-For is believed")] = ()
    cors_origins: Annotated[
        Words, _says("Origins whose pages may call the API, such as https://console.example.com")
    ] = ()

    data_dir: Annotated[str, _says("Folder with all data of this installation", opens="Data")] = (
        "./windlass-data"
    )
    database_url: Annotated[
        str, _says("postgresql://… to use PostgreSQL; empty is SQLite in the data directory", secret=True)
    ] = ""
    key: Annotated[
        str,
        _says(
            "Key that encrypts secrets, 64 hexadecimal digits; empty is the file `key` in the data directory",
            secret=True,
        ),
    ] = ""
    log_retention_bytes: Annotated[int, _says("Log bytes kept for each service", ge=65_536)] = (
        64 * 1024 * 1024
    )
    log_retention_days: Annotated[int, _says("Days that log lines are kept", ge=1)] = 14
    audit_retention_days: Annotated[
        int, _says("Days that the events of the audit are kept; 0 is for ever", ge=0, le=36_500)
    ] = 365

    admin_token: Annotated[
        str,
        _says(
            "An Admin token of the first organization, 32 characters or more",
            secret=True,
            opens="Access",
            pattern=r"^([!-~]{32,})?\Z",
        ),
    ] = ""
    rate_limit: Annotated[int, _says("Requests per hour and token", ge=1)] = 1000
    session_rate_limit: Annotated[
        int, _says("Requests per hour and person who signs in through the OpenID Connect issuer", ge=1)
    ] = 20_000
    session_ttl: Annotated[
        int, _says("How long a session of the built-in issuer lasts, in seconds", ge=60)
    ] = 3600
    oidc_issuer: Annotated[str, _says("OpenID Connect issuer whose JWTs are accepted")] = ""
    oidc_audience: Annotated[Words, _says("Audiences that such a JWT may be for")] = ("windlass",)
    oidc_algorithms: Annotated[Words, _says("Signature algorithms accepted from it")] = (
        "RS256",
        "ES256",
        "EdDSA",
    )
    oidc_join: Annotated[
        str,
        _says(
            "Role that its people get in the first organization; empty: only invited people may sign in",
            pattern=r"^(Read|Deploy|Write|Admin)?\Z",
        ),
    ] = ""

    engine: Annotated[
        str, _says("Engine of the cluster `local`: auto, process, docker", opens="Services")
    ] = "auto"
    place: Annotated[str, _says("Name of this machine among those of servers", pattern=PLACE_NAME)] = "local"
    isolation: Annotated[
        str,
        _says(
            "Whether services of the engine process are kept apart: required, auto (as far as the machine "
            "allows), off",
            pattern=r"^(required|auto|off)\Z",
        ),
    ] = "auto"
    isolation_users: Annotated[
        str,
        _says(
            "Users of the machine that are given to services, where Windlass is root: the first and the last",
            pattern=r"^[0-9]{4,10}-[0-9]{4,10}\Z",
        ),
    ] = "1900000000-1999999999"
    isolation_readable: Annotated[
        Words, _says("Folders besides the system's that services may read, such as a compiler's")
    ] = ()
    parallel_deployments: Annotated[
        int,
        _says("How many deployments run at once, on this machine and on each other engine", ge=1, le=1000),
    ] = 4
    build_seconds: Annotated[int, _says("How long a build may take", ge=1)] = 1800
    ready_seconds: Annotated[
        int, _says("How long a new release may take to become healthy, unless its probes ask for more", ge=1)
    ] = 300
    run_seconds: Annotated[
        int, _says("How long a service that runs once may run, unless it says otherwise", ge=1)
    ] = 3600
    settle_seconds: Annotated[
        float, _says("How long an instance must have run to count as up, where nothing can be asked", ge=0)
    ] = 3.0
    stop_seconds: Annotated[
        float, _says("How long an instance may take to end, and requests under way to finish", ge=0)
    ] = 10.0
    kept_artifacts: Annotated[
        int, _says("How many builds of a service are kept to roll back to", ge=1, le=1000)
    ] = 10
    docker_host: Annotated[
        str, _says("Address of the Docker engine, such as unix:///var/run/docker.sock; empty looks for it")
    ] = ""
    git_allow_local: Annotated[bool, _says("Allow file:// and loopback repositories")] = False
    outbound_allow: Annotated[Words, _says("Networks that outgoing requests may reach although private")] = ()
    outbound_proxy: Annotated[
        str,
        _says(
            "Proxy that webhooks are sent through, such as http://proxy.example.com:3128; empty: directly",
            secret=True,
        ),
    ] = ""

    log_level: Annotated[
        str,
        _says(
            "debug, info, warning or error",
            opens="Logs of the server",
            pattern=r"^(debug|info|warning|error)\Z",
        ),
    ] = "info"
    log_format: Annotated[
        str, _says("json, text, or auto: text on a terminal", pattern=r"^(json|text|auto)\Z")
    ] = "auto"
    access_log: Annotated[bool, _says("Log every request, one JSON object a line")] = False
    access_log_file: Annotated[str, _says("File of the access log; empty is standard error")] = ""
    gateway_access_log_file: Annotated[str, _says("File of the access log of services; empty is none")] = ""

    @property
    def url(self) -> str:
        """The address where clients find this server, as far as is known here; also the name of the built-in
        issuer."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return self.public_url.rstrip("/") or f"http://{host}:{self.port}"


class ShownSetting(Struct, frozen=True):
    """A setting as `windlass config` shows it."""

    name: str
    variable: str
    value: Any
    default: Any
    source: str
    meaning: str
    group: str
    secret: bool


def load(
    flags: Mapping[str, Any], environment: Mapping[str, str] | None = None, file: Path | None = None
) -> tuple[Settings, Mapping[str, str]]:
    """Returns the settings, and the source of each that was given."""
    environment = os.environ if environment is None else environment
    file = file or _named_file(environment)
    layers = [
        ("file", _read(file) if file else {}),
        ("environment", _from_environment(environment)),
        ("flag", {name: value for name, value in flags.items() if value is not None}),
    ]
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for source, layer in layers:
        values |= layer
        sources |= dict.fromkeys(layer, source)
    return _check(values, sources), sources


def strangers(environment: Mapping[str, str] | None = None) -> list[str]:
    """Returns variables that look like settings and are none: perhaps misspelt, and without effect."""
    environment = os.environ if environment is None else environment
    declared = {PREFIX + name.upper() for name in Settings.__struct_fields__} | _NOT_SETTINGS
    return sorted(name for name in environment if name.startswith(PREFIX) and name not in declared)


def take_secrets() -> list[str]:
    """Removes secrets from the environment after they were read. Returns their names."""
    declared = {PREFIX + name.upper() for name, setting in _declared_settings().items() if setting.secret}
    secret = declared | {PREFIX + "TOKEN"}
    names = sorted(secret & os.environ.keys())
    for name in names:
        del os.environ[name]
    return names


def describe(settings: Settings, sources: Mapping[str, str]) -> list[ShownSetting]:
    """Returns every setting. The value of a secret is not shown."""
    described: list[ShownSetting] = []
    for name, declared in _declared_settings().items():
        value = getattr(settings, name)
        described.append(
            ShownSetting(
                name=name,
                variable=PREFIX + name.upper(),
                value=("(set)" if value else "(not set)") if declared.secret else value,
                default=declared.default,
                source=sources.get(name, "default"),
                meaning=declared.meaning,
                group=declared.opens or described[-1].group,
                secret=declared.secret,
            )
        )
    return described


def wants_no_colour() -> bool:
    """True if NO_COLOR is set and not empty; see https://no-color.org."""
    return bool(os.environ.get("NO_COLOR"))


def for_tools() -> dict[str, str]:
    """Returns the environment, for callers that pass on its parts about proxies, certificates and
    registries."""
    return dict(os.environ)


def _check(values: Mapping[str, Any], sources: Mapping[str, str]) -> Settings:
    try:
        return msgspec.convert(values, Settings, strict=False)
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at `$")
        name = path.strip("`.").split("[")[0]
        if not name:
            raise BadSetting(
                f"{message} (a setting of that name is not known; see `windlass config`)"
            ) from error
        where = {"environment": PREFIX + name.upper(), "flag": "--" + name.replace("_", "-")}
        meaning = _declared_settings()[name].meaning
        raise BadSetting(f"{where.get(sources.get(name, ''), name)}: {message}; it is: {meaning}") from error


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, declared in _declared_settings().items():
        text = environment.get(PREFIX + name.upper())
        if text is not None:
            values[name] = _parse(declared.default, text)
    return values


def _parse(default: Any, text: str) -> Any:
    if isinstance(default, tuple):
        return tuple(word for word in text.replace(",", " ").split())
    if isinstance(default, bool):
        return {"yes": "true", "on": "true", "no": "false", "off": "false", "": "false"}.get(
            text.lower(), text
        )
    return text.strip()


def _named_file(environment: Mapping[str, str]) -> Path | None:
    named = environment.get(_FILE)
    return Path(named) if named else None


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text())
    except OSError as error:
        raise BadSetting(f"{file} cannot be read: {error.strerror}") from error
    except ValueError as error:  # not TOML, or not UTF-8
        raise BadSetting(f"{file} cannot be read as TOML: {error}") from error


class _SettingAnnotation(NamedTuple):
    """The annotation of a setting, parsed."""

    default: Any
    meaning: str
    opens: str
    """The group that begins with this setting, if any."""
    secret: bool


@cache
def _declared_settings() -> Mapping[str, _SettingAnnotation]:
    """Returns every setting. Cached: to read annotations takes longer than everything else at a start."""
    settings = {}
    for field in msgspec.structs.fields(Settings):
        info = msgspec.inspect.type_info(field.type)
        assert isinstance(info, msgspec.inspect.Metadata)
        extra, schema = info.extra or {}, info.extra_json_schema or {}
        settings[field.name] = _SettingAnnotation(
            field.default, str(schema["description"]), extra["opens"], bool(extra["secret"])
        )
    return settings


def to_type(settings: Settings, words: str) -> str:
    """Returns a command that names this data directory from any folder."""
    if settings.data_dir == Settings().data_dir:
        return f"windlass {words}"
    return f"windlass {words} --data-dir {shlex.quote(str(Path(settings.data_dir).absolute()))}"
