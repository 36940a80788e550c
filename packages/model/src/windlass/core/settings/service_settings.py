"""The advanced settings of services."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from msgspec import Meta

from windlass.core.declare.fields import Line, Text
from windlass.core.settings.setting import AdvancedSetting, Effect, settings_of_kind

_Seconds = Annotated[int, Meta(ge=0, le=86_400)]
_HstsSeconds = Annotated[int, Meta(ge=0, le=63_072_000)]
_Grace = Annotated[int, Meta(ge=0, le=3600)]
_FromOne = Annotated[int, Meta(ge=1, le=86_400)]
_Percent = Annotated[int, Meta(ge=0, le=100)]
_Count = Annotated[int, Meta(ge=0, le=2**31 - 1)]
_Kept = Annotated[int, Meta(ge=0, le=1000)]
_Map = Annotated[dict[str, Line], Meta(max_length=100)]
_Command = Annotated[list[Text], Meta(max_length=100)]
_Rate = Annotated[int, Meta(ge=0, le=1_000_000)]
_Minutes = Annotated[int, Meta(ge=0, le=10_080)]
_Page = Annotated[str, Meta(max_length=16_384)]
"""A page, which is part of each route of a service."""
_Text = Annotated[str, Meta(max_length=65_536)]

ROUTED: Final = "R"
"""The letter of other kinds of service whose ports have host names."""
_PROGRAMS, _ROUTED, _BUILT, _ALL = "AC", f"AC{ROUTED}", "AJ", "ACJT"
"""The letters of kinds of service: applications, containers, jobs, and T for modules."""


def _row(
    name: str, of: str, type: Any, default: Any, about: str, effect: Effect = Effect.NONE, **more: str
) -> AdvancedSetting:
    return AdvancedSetting(name=name, type=type, default=default, about=about, effect=effect, of=of, **more)


_CLASSIC_BUILDER_NOTE: Final = (
    "On Docker engines without BuildKit, for applications and jobs; more than the default counts as the "
    "default. BuildKit has no such limit, and the "
    "process engine the server's setting build_memory"
)
_AT_END: Final = "The list is shortened when a run ends"
_NOT_TCP: Final = "Has no effect on public ports of the protocol TCP"
_NOT_SWITCHED: Final = "Has no effect on websockets and on public ports of the protocol TCP"
_ANSWER_LIMIT: Final = "The limit begins when the request has arrived, and ends where the answer begins"
_KUBERNETES: Final = Effect.KUBERNETES
TABLE: Final = (
    _row(
        "deployment.custom_domain_check_enabled", _ROUTED, bool, True,
        "Whether a deployment checks that the custom domains lead here",
    ),
    _row(
        "deployment.termination_grace_period_seconds", _ALL, _Grace, 10,
        "Seconds between the signal to stop and the end by force",
        Effect.DEPLOYMENT, unit="seconds", operator="stop_seconds", note="At most an hour",
    ),
    _row(
        "deployment.affinity.node.required", _ALL, _Map, {},
        "Labels of the nodes that may run it", _KUBERNETES,
    ),
    _row(
        "deployment.antiaffinity.pod", _PROGRAMS, Literal["Preferred", "Requirred"], "Preferred",
        "Whether instances should or must run on different nodes", _KUBERNETES,
    ),
    _row(
        "deployment.topology_spread.zone", _PROGRAMS,
        Literal["Disabled", "ScheduleAnyway", "DoNotSchedule"], "Disabled",
        "Whether instances are spread over zones", _KUBERNETES,
    ),
    _row(
        "deployment.lifecycle.post_start_exec_command", "A", _Command, [],
        "Command that runs in each instance after its start, and before it gets requests",
        Effect.DEPLOYMENT,
        note="A deployment fails if it fails or lasts longer than a start may. It runs again where a service "
        "wakes up, or an instance is added, which may get requests before; not where one is restarted after "
        "it ended",
    ),
    _row(
        "deployment.lifecycle.pre_stop_exec_command", "A", _Command, [],
        "Command that runs in each instance before it gets the signal to stop, within the same time",
        Effect.AT_ONCE,
        note="Where a deployment or a stop ends the instance; not where it is restarted after a failed check",
    ),
    _row(
        "deployment.update_strategy.type", _PROGRAMS, Literal["RollingUpdate", "Recreate"],
        "RollingUpdate",
        "RollingUpdate starts the new version beside the old one; Recreate ends the old one first",
        Effect.DEPLOYMENT,
        note="A service with storage is always recreated",
    ),
    _row(
        "deployment.update_strategy.rolling_update.max_unavailable_percent", _PROGRAMS, _Percent, 25,
        "Share of the instances that may be missing during an update", unit="percent",
        note="None is missing: all instances of the old version stay until the new version is ready, so that "
        "a release that fails has taken nothing away. Where there is no room for both, choose Recreate",
    ),
    _row(
        "deployment.update_strategy.rolling_update.max_surge_percent", _PROGRAMS, _Percent, 25,
        "Share of the instances that may run in addition during an update", unit="percent",
        note="All instances of the new version start at once beside the old ones, because requests go to one "
        "version at a time. Where there is no room for both, choose Recreate",
    ),
    _row(
        "build.timeout_max_sec", "AJT", _FromOne, 1800, "Seconds that a build may take", Effect.BUILD,
        unit="seconds", operator="build_seconds", note="The server's setting is the most",
    ),
    _row(
        "build.cpu_max_in_milli", "AJT", Annotated[int, Meta(ge=1, le=1_000_000)], 2000,
        "Processor time of a build, in thousandths of a core", Effect.BUILD, unit="thousandths of a core",
        note=_CLASSIC_BUILDER_NOTE, engines="Docker",
    ),
    _row(
        "build.ram_max_in_gib", "AJT", Annotated[int, Meta(ge=1, le=16_384)], 2,
        "Memory of a build, in GiB", Effect.BUILD, unit="GiB", note=_CLASSIC_BUILDER_NOTE,
        engines="Docker",
    ),
    _row(
        "build.ephemeral_storage_in_gib", "T", Annotated[int, Meta(ge=0, le=16_384)], 0,
        "Temporary disk space of a build, in GiB", unit="GiB",
    ),
    _row(
        "build.disable_buildkit_cache", _BUILT, bool, False,
        "Whether a build ignores the steps that earlier builds kept", Effect.BUILD,
        note="The process engine keeps no steps, only caches of tools", engines="Docker",
    ),
    _row(
        "build.skip_git_submodules", "AJT", bool, False,
        "Whether the submodules of a repository are left out",
        note="Submodules are never fetched",
    ),
    _row(
        "job.delete_ttl_seconds_after_finished", "J", Annotated[int, Meta(ge=0, le=2**31 - 1)] | None,
        None, "Seconds after its end at which a run leaves the list; null keeps it", Effect.AT_ONCE,
        unit="seconds", note="Of runs that end after the change",
    ),
    _row(
        "cronjob.concurrency_policy", "J", Literal["Forbid", "Allow", "Replace"], "Forbid",
        "What happens at a due time while a run is under way: Forbid leaves the new run out, Allow runs "
        "both, Replace ends the earlier run", Effect.AT_ONCE, note="Allow runs at most 20 at once",
    ),
    _row(
        "cronjob.failed_jobs_history_limit", "J", _Kept, 1000,
        "Number of failed runs that stay in the list", Effect.AT_ONCE, note=_AT_END,
    ),
    _row(
        "cronjob.success_jobs_history_limit", "J", _Kept, 1000,
        "Number of successful runs that stay in the list", Effect.AT_ONCE, note=_AT_END,
    ),
    _row(
        "network.ingress.proxy_body_size_mb", _ROUTED, _Count, 0,
        "Largest body of a request, in MB; 0 is no limit", Effect.AT_ONCE, unit="MB",
    ),
    _row(
        "network.ingress.force_ssl_redirect", _ROUTED, bool, True,
        "Whether requests by HTTP are sent to HTTPS, for names with a certificate", Effect.AT_ONCE,
    ),
    _row(
        "network.ingress.enable_cors", _ROUTED, bool, False,
        "Whether the gateway answers browsers that ask for permission to use it from another site (CORS)",
        Effect.AT_ONCE,
    ),
    _row(
        "network.ingress.cors_allow_origin", _ROUTED, _Text, "*",
        "Sites that may use it, separated by commas, if CORS is on", Effect.AT_ONCE,
    ),
    _row(
        "network.ingress.cors_allow_methods", _ROUTED, _Text, "GET, PUT, POST, DELETE, PATCH, OPTIONS",
        "Methods that other sites may use, if CORS is on", Effect.AT_ONCE,
    ),
    _row(
        "network.ingress.cors_allow_headers", _ROUTED, _Text,
        "DNT,Keep-Alive,User-Agent,X-Requested-With,If-Modified-Since,Cache-Control,Content-Type,Range,"
        "Authorization",
        "Headers that other sites may send, if CORS is on", Effect.AT_ONCE,
    ),
    _row(
        "network.ingress.proxy_buffer_size_kb", _ROUTED, _Count, 4,
        "Size of the buffer for the head of an answer, in kB", unit="kB",
    ),
    _row(
        "network.ingress.keepalive_time_seconds", _ROUTED, _Seconds, 0,
        "Seconds for which a connection of a client takes further requests; 0 is no limit", Effect.AT_ONCE,
        unit="seconds", note="The answer to the next request then says that the connection closes",
    ),
    _row(
        "network.ingress.keepalive_timeout_seconds", _ROUTED, _Seconds, 75,
        "Seconds for which a connection of a client stays open between two requests", Effect.AT_ONCE,
        unit="seconds", note=f"At most an hour counts; 0 is 75 seconds. {_NOT_SWITCHED}",
    ),
    _row(
        "network.ingress.send_timeout_seconds", _ROUTED, _Seconds, 60,
        "Seconds for which a client may take less than 48 KiB of an answer that waits for it", Effect.AT_ONCE,
        unit="seconds", note=f"At most an hour counts; 0 is 60 seconds. {_NOT_SWITCHED}",
    ),
    _row(
        "network.ingress.proxy_connect_timeout_seconds", _ROUTED, _Seconds, 5,
        "Seconds until an instance has to accept a connection", Effect.AT_ONCE, unit="seconds",
        note="At most 5 minutes count; 0 is 5 seconds. The request then goes to another instance, if there "
        f"is one. {_NOT_TCP}",
    ),
    _row(
        "network.ingress.proxy_send_timeout_seconds", _ROUTED, _Seconds, 0,
        "Seconds for which an instance may take nothing of a request body; 0 is no limit", Effect.AT_ONCE,
        unit="seconds", note="An answer that has begun is then cut off, otherwise the client gets status "
        f"504. {_NOT_SWITCHED}",
    ),
    _row(
        "network.ingress.proxy_read_timeout_seconds", _ROUTED, _Seconds, 0,
        "Seconds until an instance has to begin its answer; 0 is no limit", Effect.AT_ONCE, unit="seconds",
        note=_ANSWER_LIMIT,
    ),
    _row(
        "network.ingress.proxy_buffering", _ROUTED, Literal["on", "off"], "on",
        "Whether answers are buffered", note="The gateway passes answers on as they come",
    ),
    _row(
        "network.ingress.proxy_request_buffering", f"C{ROUTED}", Literal["on", "off"], "on",
        "Whether requests are buffered", note="The gateway passes requests on as they come",
    ),
    _row(
        "network.ingress.grpc_send_timeout_seconds", _ROUTED, _Seconds, 60,
        "Seconds for which an instance may take nothing of a gRPC call", unit="seconds",
    ),
    _row(
        "network.ingress.grpc_read_timeout_seconds", _ROUTED, _Seconds, 60,
        "Seconds for which an instance may send nothing of a gRPC call", unit="seconds",
    ),
    _row(
        "network.ingress.whitelist_source_range", _ROUTED, _Text, "0.0.0.0/0",
        "Networks whose clients may use it, separated by commas", Effect.AT_ONCE,
        note=f"Behind a trusted proxy, the address of its client counts. {_NOT_TCP}",
    ),
    _row(
        "network.ingress.denylist_source_range", _ROUTED, _Text, "",
        "Networks whose clients may not use it, separated by commas", Effect.AT_ONCE,
        note=f"Behind a trusted proxy, the address of its client counts. {_NOT_TCP}",
    ),
    _row(
        "network.ingress.extra_headers", _ROUTED, _Text, "{}",
        "Headers of each answer, as a JSON object; they take the place of those of the service",
        Effect.AT_ONCE,
    ),
    _row(
        "network.ingress.basic_auth_env_var", _ROUTED, _Text, "",
        "Name of the variable with the users and passwords that visitors have to give", Effect.AT_ONCE,
        note="The variable has USER:PASSWORD, one a line, with passwords in clear or from `htpasswd -s` (the "
        "latter also separated by commas). The first 100 users count, each with at most 700 bytes. It is "
        f"read when the service is deployed; without a valid login, all requests are refused. {_NOT_TCP}",
    ),
    _row(
        "network.ingress.enable_sticky_session", _ROUTED, bool, False,
        "Whether requests of one browser go to one instance, by a cookie", Effect.AT_ONCE,
        note="A session moves when its instance ends or takes no connections: keep nothing in the memory of "
        f"an instance that may not be lost. {_NOT_TCP}",
    ),
    _row(
        "network.gateway_api.http_request_timeout_seconds", _ROUTED, _Seconds | None, None,
        "Seconds that a request may take in all", Effect.AT_ONCE, unit="seconds",
        note=_ANSWER_LIMIT,
    ),
    _row(
        "network.gateway_api.http_connection_idle_timeout_seconds", _ROUTED, _Seconds | None, None,
        "Seconds for which a connection of a client stays open between two requests", Effect.AT_ONCE,
        unit="seconds", note="At most an hour counts. Of this one and "
        "network.ingress.keepalive_timeout_seconds, the shorter one that is set counts",
    ),
    _row(
        "network.gateway_api.retry.num_retries", _ROUTED, Annotated[int, Meta(ge=0, le=100)] | None, None,
        "Number of further tries of a request that failed", Effect.AT_ONCE,
        note="At most 10 count. Of requests by GET, HEAD, OPTIONS, PUT, DELETE and TRACE with at most "
        "64 KiB; others only if no instance has accepted the connection. All retries of a service together "
        "are a fifth of its requests, and 10 in any case, so that a failing service gets no multiple of its "
        "load. Before each try, the gateway waits up to 0.25 seconds",
    ),
    _row(
        "network.gateway_api.retry.retry_on", _ROUTED, _Text | None, None,
        "Failures after which a request is tried again, separated by commas: connect-failure, reset (no "
        "valid answer, or none in time), refused-stream (the same), gateway-error (these, and statuses "
        "502 to 504), 5xx (these, and statuses 500 to 599), retriable-4xx (status 409), "
        "retriable-status-codes",
        Effect.AT_ONCE, note="null is connect-failure, reset and retriable-status-codes. Other words of "
        "Envoy are stored without effect",
    ),
    _row(
        "network.gateway_api.retry.http_status_codes", _ROUTED, _Text | None, None,
        "Statuses that retriable-status-codes means, separated by commas", Effect.AT_ONCE,
        note="null is 503",
    ),
    _row(
        "network.gateway_api.retry.per_try_timeout_seconds", _ROUTED, _FromOne | None, None,
        "Seconds until an instance has to begin its answer in one try", Effect.AT_ONCE, unit="seconds",
        note=f"{_ANSWER_LIMIT}. Acts only together with network.gateway_api.retry.num_retries",
    ),
    _row(
        "windlass.rate_limit.requests_per_minute", "AC", _Rate, 0,
        "Requests that one address may send in a minute; 0 is no limit", Effect.AT_ONCE,
        note="Above it, requests get status 429 with Retry-After. An address of IPv6 is its /64 network. "
        f"Behind a trusted proxy, the address of its client counts. {_NOT_TCP}",
    ),
    _row(
        "windlass.rate_limit.burst", "AC", _Rate, 0,
        "Requests of a minute that one address may send at once; 0 is all of them", Effect.AT_ONCE,
    ),
    _row(
        "windlass.hsts.max_age_seconds", "AC", _HstsSeconds, 0,
        "Seconds for which browsers open the names of the service by HTTPS only (HSTS); 0 is not at all",
        Effect.AT_ONCE, unit="seconds",
        note="Answers by HTTPS get the header Strict-Transport-Security, unless the service sends one. Begin "
        "with 300: browsers keep it, so that the service cannot go back to HTTP before its end",
    ),
    _row(
        "windlass.compression.enable", "AC", bool, False,
        "Whether texts of more than 1 KiB are compressed with gzip, for clients that take it", Effect.AT_ONCE,
        note="Text, JSON, JavaScript, XML and SVG; not streams of events, ranges, and what the service has "
        "compressed itself or marked no-transform. Leave it off for pages that show both a secret and what "
        "the request has sent: their size would reveal the secret (BREACH). Static sites are compressed in "
        "any case",
    ),
    _row(
        "windlass.access_log.format", "AC", Literal["none", "combined", "json"], "none",
        "Whether each request of a visitor is a line of the access log of the service, in the form of nginx "
        "or as JSON", Effect.AT_ONCE,
        note="It is read with `windlass logs --access`, and has a quarter of the size that logs may have. "
        f"Paths have no query, which may contain a secret. {_NOT_TCP}",
    ),
    _row(
        "windlass.pages.error", "AC", _Page, "",
        "A page (HTML) in place of the gateway's own pages of status 500 to 599, such as that the service is "
        "not running", Effect.AT_ONCE,
        note="In it, {status}, {title} and {message} are replaced. For browsers; programs get JSON or text. "
        "Answers of the service itself stay as they are",
    ),
    _row(
        "windlass.maintenance.enable", "AC", bool, False,
        "Whether all requests are answered with status 503 and the maintenance page", Effect.AT_ONCE,
        note=f"The service keeps running. {_NOT_TCP}",
    ),
    _row(
        "windlass.maintenance.page", "AC", _Page, "",
        "The maintenance page (HTML); empty for that of the gateway", Effect.AT_ONCE,
        note="In it, {status}, {title} and {message} are replaced",
    ),
    _row(
        "windlass.maintenance.allowed_source_range", "AC", _Text, "",
        "Networks whose clients reach the service during maintenance, separated by commas", Effect.AT_ONCE,
    ),
    _row(
        "windlass.sleep.after_minutes", "AC", _Minutes, 0,
        "Minutes without a request after which the service is stopped, until the next request starts it "
        "again; 0 is never", Effect.AT_ONCE, unit="minutes",
        note="Static sites and services that no request can wake never sleep. One that other services may "
        "call directly sleeps only with windlass.sleep.although_called",
    ),
    _row(
        "windlass.sleep.although_called", "AC", bool, False,
        "Whether it also sleeps if other services of its environment may call it, or if it has public ports "
        "of TCP or UDP", Effect.AT_ONCE,
        note="Calls to a sleeping service fail, unless they go through the gateway: requests and connections "
        "to public ports do, and calls of other services on the process engine. Has no effect without "
        "windlass.sleep.after_minutes",
    ),
    _row(
        "hpa.cpu.average_utilization_percent", _PROGRAMS, _Percent, 60,
        "Processor load above which instances are added", unit="percent",
    ),
    _row(
        "hpa.memory.average_utilization_percent", _PROGRAMS, _Percent | None, None,
        "Memory use above which instances are added", unit="percent",
    ),
    _row(
        "security.service_account_name", _ALL, Line, "", "Service account of its instances", _KUBERNETES,
    ),
    _row(
        "security.automount_service_account_token", "ACJ", bool, False,
        "Whether instances get the token of their service account", _KUBERNETES,
    ),
    _row(
        "security.read_only_root_filesystem", _ALL, bool, False,
        "Whether instances can write to nothing but their storage, /tmp, /run and /var/tmp",
        Effect.DEPLOYMENT,
        acts_of=_PROGRAMS,
        note="A service with files as variables is refused. On the process engine, the system is read-only "
        "in any case, and each instance may change its own copy of the code, which ends with it",
        why_not="Runs write their output into the root file system",
        engines="Docker, Kubernetes",
    ),
)  # fmt: skip


def rows_of(letter: str) -> tuple[AdvancedSetting, ...]:
    """Returns the settings of a kind of service."""
    return tuple(row.of_kind(letter) for row in TABLE if letter in row.of)


OF_APPLICATIONS: Final = settings_of_kind("Application", rows_of("A"))
OF_CONTAINERS: Final = settings_of_kind("Container", rows_of("C"))
OF_JOBS: Final = settings_of_kind("Job", rows_of("J"))
