"""Every operation, with every kind of caller: who is let in, refused, or told that nothing is there."""

from __future__ import annotations

import uuid

import msgspec
import pytest

from tests.derived import matrix
from tests.derived.answers import exchanged, footprint, never_there, refused, same
from tests.derived.operations import OPERATIONS, for_operations
from tests.derived.references import chooses, references, referring, refers_to_something, whole_body
from tests.derived.sorts import about_the_organization, below_a_limit
from tests.derived.stage import BASES, Stage
from tests.marks import either
from tests.world import Answer
from windlass.base.tokens import new_token
from windlass.core.access import Scope
from windlass.core.declare.registry import Operation, Registry
from windlass.core.declare.resource import Family
from windlass.families import registry

every_operation = for_operations()
with_an_id = for_operations(lambda operation: bool(operation.params))

CREDENTIALS = {
    "none": None,
    "a scheme alone": "Token ",
    "a word": "Token nonsense",
    "a token with a wrong check": "Token " + "wdl_" + "A" * 49,
    "a token in two pieces": f"Token {new_token()[:20]} {new_token()[20:]}",
    "another scheme": "Basic YWRtaW46YWRtaW4=",
    "no scheme": " " + new_token(),
    "a token that nobody has": f"Token {new_token()}",
    "the same as Bearer": f"Bearer {new_token()}",
    "something like a JWT": "Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJvcGVyYXRvciJ9.",
    "not ASCII": "Token wdl_ü",
}


# Refused credentials


@every_operation
async def test_a_bad_credential_reads_and_changes_nothing(stage: Stage, operation: Operation):
    subject = await stage.plot.untouched(operation)
    before = await footprint(stage)
    # At night, each credential is tried at each base, with a third of the operations; else two of them, and
    # none, with each operation.
    for number, (name, credential) in enumerate(CREDENTIALS.items(), start=OPERATIONS.index(operation)):
        if credential is None or number % either(5, 1) == 0:
            refused(await stage.ask(subject, credential, base=BASES[number % len(BASES)]), name)
    assert await footprint(stage) == before


@pytest.fixture(scope="module")
async def revoked(stage: Stage) -> str:
    tenant = stage.plot.tenant
    made = await stage.token_made(tenant.org, tenant.admin)
    assert (await stage.world.get("/organization", token=made["token"])).status == 200
    gone = await stage.world.delete(f"/organization/{tenant.org}/apiToken/{made['id']}", token=tenant.admin)
    assert gone.status == 204
    stage.world.clock.turn(1.001)  # by then, every replica knows
    return str(made["token"])


@pytest.fixture(scope="module")
async def expired(stage: Stage) -> str:
    tenant, clock = stage.plot.tenant, stage.world.clock
    token = await stage.token(tenant.org, tenant.admin, expires_at="2026-09-21T14:26:40.000Z")
    assert clock.now() < 1_790_000_800_000, "the clock of this world was turned too far"
    assert (await stage.world.get("/organization", token=token)).status == 200
    clock.ms = 1_790_000_800_000
    return token


@every_operation
async def test_a_revoked_or_expired_token_is_refused_by_every_operation(
    stage: Stage, operation: Operation, revoked: str, expired: str
):
    subject = await stage.plot.untouched(operation)
    refused(await stage.ask(subject, revoked), "revoked")
    refused(await stage.ask(subject, f"Bearer {revoked}"), "revoked, as Bearer")
    refused(await stage.ask(subject, expired), "expired")


# Scopes


@every_operation
async def test_every_operation_follows_the_scope_that_it_declares(stage: Stage, operation: Operation):
    assert await violations(stage, operation) == []


async def test_a_session_has_the_same_rights_as_its_token(stage: Stage):
    tenant = stage.plot.tenant
    for scope in matrix.SCOPES:
        made = await stage.world.post("/account/session", token=tenant.tokens[scope])
        session = f"Bearer {made['token']}"
        for operation in OPERATIONS:
            subject = await stage.plot.untouched(operation)
            if not matrix.may(scope, operation):
                assert (await stage.ask(subject, session)).status == 403
            elif not operation.writes:
                assert (await stage.ask(subject, session)).status not in (401, 403)


@pytest.mark.parametrize(
    ("id", "need"),
    [
        ("getProject", Scope.WRITE),
        ("createProject", Scope.READ),
        ("deployApplication", Scope.WRITE),
        ("deleteProject", Scope.DEPLOY),
        ("listOrganizationApiTokens", Scope.ADMIN),
    ],
)
async def test_the_check_notices_an_operation_whose_declared_scope_is_wrong(
    stage: Stage, id: str, need: Scope
):
    declared = registry().operation(id)
    assert await violations(stage, declared, msgspec.structs.replace(declared, need=need)) != []


def test_the_committed_access_matrix_matches_the_registry():
    assert matrix.FILE.read_text() == matrix.text(), "if it is meant: python -m tests.derived.matrix"


def test_every_operation_has_a_row_in_the_matrix():
    rows = [line.split()[-2:] for line in matrix.FILE.read_text().splitlines()[1:]]
    assert sorted(rows) == sorted([one.method, one.path] for one in OPERATIONS)
    assert all(one.need in matrix.MAY for one in OPERATIONS)


def test_the_access_tests_cover_operations_of_every_kind():
    """So that none of the sentences here is about nothing."""
    for sort in (below_a_limit, about_the_organization):
        assert {sort(one) for one in OPERATIONS} == {True, False}
    assert {one.need for one in OPERATIONS} == set(matrix.SCOPES)
    assert {len(one.params) for one in OPERATIONS} == {0, 1, 2}


def test_a_new_family_adds_rows_to_the_access_matrix():
    project = registry()["project"]
    other = Family("garden", project.spec, parent=project, title="Garden", group="Gardens", param="garden_id")
    grown = Registry([*registry().families.values(), other], [])
    rows = {(one.method, one.path) for one in grown.operations} - {
        (one.method, one.path) for one in OPERATIONS
    }
    assert len(rows) == 6


# Resources that answer like missing ones


@with_an_id
async def test_a_resource_of_another_organization_is_answered_like_a_missing_one(
    stage: Stage, operation: Operation
):
    subject = await stage.plot.untouched(operation)
    stranger = stage.foreign.tenant
    for base in BASES:
        missing = await stage.call(
            operation, never_there(subject.ids), subject.body, stranger.admin, base=base
        )
        assert missing.status == 404
        answer = await stage.ask(subject, stranger.admin, base=base)
        assert same(answer, missing), f"{answer} tells more than {missing}"


@for_operations(lambda operation: len(operation.params) > 1)
async def test_a_path_that_mixes_organizations_is_not_found(stage: Stage, operation: Operation):
    """The path leads through a resource of one organization to one of another, in both directions."""
    own, other = await stage.plot.untouched(operation), await stage.foreign.untouched(operation)
    # A word, such as `current`, means the same in every organization.
    for place in [place for place, id in enumerate(operation.ids) if id.families]:
        missing, strange = [
            await stage.call(operation, exchanged(own.ids, place, id), own.body, own.tenant.admin)
            for id in (str(uuid.uuid4()), other.ids[place])
        ]
        assert missing.status == 404
        assert same(strange, missing)


@with_an_id
async def test_a_malformed_id_is_answered_like_a_missing_one(stage: Stage, operation: Operation):
    subject = await stage.plot.untouched(operation)
    for place, id in enumerate(subject.ids):
        for strange in ("0", "\x00", "ü", "'--", "x" * 5000, id.upper(), id + " ", id + "\x00"):
            ids = exchanged(subject.ids, place, strange)
            answer = await stage.call(operation, ids, subject.body, subject.tenant.admin)
            assert answer.status == 404, (strange, answer)


@for_operations(refers_to_something)
async def test_a_reference_to_another_organization_is_refused_like_a_missing_one(
    stage: Stage, operation: Operation
):
    """In every reference of a body, the answer to an id of another organization is that to an invented
    one."""
    subject = await stage.plot.subject(operation)
    for path, (other, _) in references(operation).items():
        body = await whole_body(stage, operation)
        if not chooses(body, path):
            continue
        theirs = await stage.foreign.standing(registry()[other])
        strange, unknown = [
            await stage.call(
                operation, subject.ids, referring(operation, body, path, id), subject.tenant.admin
            )
            for id in (theirs.id, str(uuid.uuid4()))
        ]
        assert same(strange, unknown)
        assert unknown.status == 400
        # `cluster` is another name of `cluster_id`.
        assert unknown.message.partition(":")[0] in {path, f"{path}_id"}


# Helpers


async def violations(stage: Stage, operation: Operation, declared: Operation | None = None) -> list[str]:
    """Yields each difference between the server and its declaration."""
    found = []
    for scope in matrix.SCOPES:
        allowed = matrix.may(scope, declared or operation)
        answer, changed = await tried(stage, operation, scope, careful=not allowed)
        subject, status = await stage.plot.untouched(operation), answer.status
        if allowed and status != subject.status:
            found.append(f"{scope.word} may {operation.id}, and is answered {answer}")
        if not allowed and (status != 403 or changed):
            found.append(f"{scope.word} may not {operation.id}, and is answered {answer}")
    return found


async def tried(stage: Stage, operation: Operation, scope: Scope, *, careful: bool) -> tuple[Answer, bool]:
    """Returns the status of the answer to a token of this scope, and whether anything was changed."""
    subject = await (stage.plot.untouched if careful else stage.plot.subject)(operation)
    before = await footprint(stage)
    answer = await stage.ask(subject, subject.tenant.tokens[scope])
    return answer, await footprint(stage) != before


def test_the_comparison_of_404_answers_notices_different_texts_and_statuses():
    assert not same(Answer(404, {}, b"no project"), Answer(404, {}, b"no such project"))
    assert not same(Answer(404, {}, b"{}"), Answer(403, {}, b"{}"))
