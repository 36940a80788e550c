"""One run of schemathesis: all its checks, all its phases, the same cases for the same seed."""

from __future__ import annotations

import functools
import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import schemathesis
from hypothesis.strategies import SearchStrategy, just
from schemathesis.core.jsonschema.patterns import update_quantifier
from schemathesis.engine import StopReason, events, from_schema
from schemathesis.engine.recorder import ScenarioRecorder

from tests.documented import DOCUMENT, within
from tests.schemathesis.mending import AUTHORIZATION, mending
from tests.schemathesis.town import Town
from windlass.core.declare.resource import Verb
from windlass.families import registry

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "positive_data_acceptance",
    "missing_required_header",
    "unsupported_method",
    "allow_header_conformance",
    "use_after_free",
    "ensure_resource_availability",
    "ignored_auth",
    "object_level_authorization",
)
_ANSWERS: dict[str, Any] = {
    # How a right request may be answered when the world is not ready for it, and how a wrong one is refused.
    "positive_data_acceptance": {"expected-statuses": ["2xx", "401", "404", "409"]},
    "negative_data_rejection": {"expected-statuses": ["400", "401", "404", "405", "409", "413"]},
}
COVERAGE, STORIES = "coverage", "stateful"
PHASES = ("examples", COVERAGE, "fuzzing", STORIES)
EVERYTHING = tuple(operation.id for operation in registry().operations)
TELLABLE = {
    operation.id
    for operation in registry().operations
    if not operation.listing and operation.family and Verb.CREATE in operation.family.verbs
}
"""The operations of stories: those that create things. Lists are left out, because they grow with each
repetition."""


class Report:
    """The tried cases, the answers, and the violations."""

    def __init__(self) -> None:
        self.cases: Counter[str] = Counter()
        """By phase: requests whose answers were checked."""
        self.answers: defaultdict[str, Counter[int]] = defaultdict(Counter)
        """By operation: how often it answered with which status."""
        self.failed: Counter[str] = Counter()
        """By check: how often it complained."""
        self.complaints: list[str] = []

    def take(self, event: events.EngineEvent) -> None:
        match event:
            case events.ScenarioFinished(phase=phase, recorder=recorder):
                self._take(str(phase), recorder)
            case events.NonFatalError(label=label, value=error):
                self.complaints.append(f"{label}: {error!r}")
            case events.FatalError(exception=error):
                raise error
            case events.EngineFinished(stop_reason=reason) if reason is not StopReason.COMPLETED:
                self.complaints.append(f"it stopped early: {reason}")

    def _take(self, phase: str, recorder: ScenarioRecorder) -> None:
        self.cases[phase] += len(recorder.checks)
        for id, checks in recorder.checks.items():
            response = recorder.interactions[id].response
            assert response is not None
            self.answers[recorder.cases[id].value.operation.label][response.status_code] += 1
            label = recorder.cases[id].value.operation.label
            for check in checks:
                if check.failure_info and not _refuses_beyond_schemas(check.name, label, response.text):
                    self.failed[check.name] += 1
                    self.complaints.append(
                        f"{check.name}: {check.failure_info.failure}\n{check.failure_info.code_sample}\n"
                        f"→ {response.status_code} {response.text[:1000]}"
                    )


FIELDS_BEYOND_SCHEMAS = {
    "/uploadCertificate": ("chain", "key"),
    "/deploymentBuildUsageReport": ("execution_id",),
    "/cloudProviderInfo": ("credentials.id",),
}
"""Fields by the ends of paths: a schema does not say what a certificate is, or which ids exist."""


def _refuses_beyond_schemas(check: str, label: str, answer: str) -> bool:
    """Returns whether a value was refused that its schema allows."""
    if check != "positive_data_acceptance":
        return False
    return any(
        f'"message":"{field}: ' in answer
        for end, fields in FIELDS_BEYOND_SCHEMAS.items()
        if label.endswith(end)
        for field in fields
    )


class Trial:
    """Tries the document of the server at this address."""

    def __init__(
        self,
        address: str,
        town: Town,
        *,
        seed: int,
        examples: int,
        base: str = "",
        alone: Collection[str] = EVERYTHING,
        covered: Collection[str] = EVERYTHING,
        most: int | None = None,
    ) -> None:
        """`alone`: the operations that all phases but stories try. `covered`: those of them that the coverage
        phase tries, with at most `most` cases each."""
        self._address = address
        self._base = base
        self._town = town
        self._seed = seed
        self._examples = examples
        self._alone = alone
        self._covered = covered
        self._most = most

    def run(self, phases: Collection[str] = PHASES, operations: Sequence[str] = EVERYTHING) -> Report:
        report = Report()
        alone = [id for id in operations if id in self._alone]
        self._run(report, {*phases} - {COVERAGE, STORIES}, alone)
        self._run(report, {*phases} & {COVERAGE}, [id for id in alone if id in self._covered])
        self._run(report, {*phases} & {STORIES}, [id for id in operations if id in TELLABLE])
        return report

    def _run(self, report: Report, phases: Collection[str], operations: Sequence[str]) -> None:
        if not phases:
            return
        document = f"{self._address}/openapi.json"
        schema = schemathesis.openapi.from_url(document, config=self._config(phases))
        schema.auth()(Admin)
        with mending(schema, self._town):
            included = schema.include(operation_id=[*operations])
            _shorten_coverage(included, self._most)
            for event in from_schema(included).execute():
                report.take(event)

    def _config(self, phases: Collection[str]) -> schemathesis.Config:
        # What was answered must not decide what is sent next: then a seed would not say it all.
        deaf: dict[str, Any] = {"extra-data-sources": {"responses": False}}
        return schemathesis.Config.from_dict(
            {
                "base-url": self._address + self._base,
                "seed": self._seed,
                "continue-on-failure": True,
                "cache": {"enabled": False},
                "output": {"sanitization": {"enabled": False}},
                "generation": {"max-examples": self._examples, "no-shrink": True, "database": "none"},
                "checks": {check: {"enabled": True, **_ANSWERS.get(check, {})} for check in CHECKS},
                "phases": {
                    "examples": {"enabled": "examples" in phases, **deaf},
                    "coverage": {"enabled": "coverage" in phases, **deaf},
                    "fuzzing": {"enabled": "fuzzing" in phases, **deaf, "error-feedback": {"enabled": False}},
                    "stateful": {
                        "enabled": "stateful" in phases,
                        "generation": {"max-examples": max(6, 3 * self._examples)},
                    },
                },
            }
        )


def _shorten_coverage(schema: Any, most: int | None) -> None:
    """Making the cases of the coverage phase takes ten times as long as asking them, so that not even making
    them is what saves time."""
    every = schema.iter_coverage_cases

    def cases(*given: Any, **named: Any) -> Iterator[Any]:
        if most is not None:
            for key, strategy in _long_texts().items():
                named["session"].pattern_strategies[key] = strategy
        return itertools.islice(every(*given, **named), most)

    schema.iter_coverage_cases = cases


@functools.cache
def _long_texts() -> dict[Any, SearchStrategy[str]]:
    """Texts of the greatest lengths for each pattern, by the keys under which schemathesis keeps such
    strategies. Without them it draws texts of 255 characters for names, character by character, until one
    fits: names may have joined emoji, of which most draws have too many, and that takes 15 seconds."""
    texts = {}
    for part in within(DOCUMENT):
        pattern, longest = part.get("pattern"), part.get("maxLength")
        if isinstance(pattern, str) and longest:
            for length in (longest - 1, longest):
                if re.search(pattern, text := length * "n"):
                    texts[update_quantifier(pattern, length, length), length, length, None] = just(text)
    return texts


class Admin:
    """The token of the caller; `Mending` may replace it by another."""

    def get(self, case: Any, context: Any) -> str:
        return AUTHORIZATION

    def set(self, case: Any, data: str, context: Any) -> None:
        case.headers["Authorization"] = data
