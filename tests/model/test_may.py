"""Decisions of `may`, for permits and limits of every sort."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import astuple, replace

from tests.tables import rows
from windlass.core.access import (
    Actor,
    Permit,
    ResourceLocation,
    Scope,
    ids_to_look_up,
    may,
    may_below,
    may_somewhere,
    permits_throughout,
)

READ, WRITE, DEPLOY, ADMIN = Scope.READ, Scope.WRITE, Scope.DEPLOY, Scope.ADMIN
NEEDS = (READ, WRITE, DEPLOY, ADMIN)

ACME = ResourceLocation("acme")
SHOP = ResourceLocation("acme", project="shop")
LIVE = ResourceLocation("acme", project="shop", environment="live", mode="PRODUCTION")
TRIAL = ResourceLocation("acme", project="shop", environment="trial", mode="STAGING")
LIVE_WEB = replace(LIVE, service="web")
TRIAL_WEB = replace(TRIAL, service="web2")
TRIAL_KEY = replace(TRIAL_WEB, item="key")
BLOG = ResourceLocation("acme", project="blog")
BLOG_LIVE = ResourceLocation("acme", project="blog", environment="blog-live", mode="PRODUCTION")
EAST, WEST = ResourceLocation("acme", cluster="east"), ResourceLocation("acme", cluster="west")
HOOK = ResourceLocation("acme", item="hook")
OTHER = ResourceLocation("other")
PLACES = (ACME, SHOP, LIVE, TRIAL, LIVE_WEB, TRIAL_WEB, TRIAL_KEY, BLOG, BLOG_LIVE, EAST, WEST, HOOK, OTHER)


def actor(*permits: Permit, limited_to: frozenset[str] | None = None) -> Actor:
    by_org: dict[str, tuple[Permit, ...]] = {}
    for permit in permits:
        by_org[permit.at.organization] = (*by_org.get(permit.at.organization, ()), permit)
    return Actor(id="a", name="a", subject="a", permits=by_org, limited_to=limited_to)


# A table of made-up roles

MAKER = actor(Permit(READ, SHOP), Permit(DEPLOY, TRIAL), Permit(ADMIN, EAST))
"""A custom role: Viewer of a project, Deployer of one of its environments, Admin of a cluster."""
STAGER = actor(Permit(READ | WRITE | DEPLOY, ResourceLocation("acme", project="shop", mode="STAGING")))
"""A custom role: Manager of a project, in environments of one mode."""


@rows(
    ("who", "where", "allowed"),
    [
        (MAKER, ACME, [READ]),
        (MAKER, SHOP, [READ]),
        (MAKER, LIVE, [READ]),
        (MAKER, LIVE_WEB, [READ]),
        (MAKER, TRIAL, [READ, DEPLOY]),
        (MAKER, TRIAL_WEB, [READ, DEPLOY]),
        (MAKER, TRIAL_KEY, [READ, DEPLOY]),
        (MAKER, BLOG, []),
        (MAKER, BLOG_LIVE, []),
        (MAKER, EAST, [READ, WRITE, DEPLOY, ADMIN]),
        (MAKER, WEST, []),
        (MAKER, HOOK, []),
        (MAKER, OTHER, []),
        (STAGER, ACME, [READ]),
        (STAGER, SHOP, [READ]),
        (STAGER, LIVE, []),
        (STAGER, LIVE_WEB, []),
        (STAGER, TRIAL, [READ, WRITE, DEPLOY]),
        (STAGER, TRIAL_KEY, [READ, WRITE, DEPLOY]),
        (STAGER, replace(TRIAL, mode="PRODUCTION"), []),
        (STAGER, BLOG, []),
        (STAGER, EAST, []),
    ],
)
def test_a_custom_role_allows_exactly_the_scopes_of_its_permits(
    who: Actor, where: ResourceLocation, allowed: list[Scope]
):
    assert [need for need in NEEDS if may(who, need, where)] == allowed


@pytest.mark.parametrize(
    ("scopes", "allowed"),
    [
        (READ, [READ]),
        (WRITE, [READ, WRITE]),
        (DEPLOY, [READ, DEPLOY]),
        (WRITE | DEPLOY, [READ, WRITE, DEPLOY]),
        (ADMIN, [READ, WRITE, DEPLOY, ADMIN]),
        (Scope(0), []),
    ],
)
def test_a_token_with_scopes_has_the_same_rights_everywhere_in_its_organization(
    scopes: Scope, allowed: list[Scope]
):
    token = Actor(id="a", name="a", subject="a", permits=permits_throughout("acme", scopes))
    for where in PLACES:
        expected = allowed if where.organization == "acme" else []
        assert [need for need in NEEDS if may(token, need, where)] == expected


@pytest.mark.parametrize(
    ("limits", "everything", "only_read"),
    [
        ({"shop"}, [SHOP, LIVE, TRIAL, LIVE_WEB, TRIAL_WEB, TRIAL_KEY], [ACME]),
        ({"trial"}, [TRIAL, TRIAL_WEB, TRIAL_KEY], [ACME]),
        ({"web2"}, [TRIAL_WEB, TRIAL_KEY], [ACME]),
        ({"web", "blog"}, [LIVE_WEB, BLOG, BLOG_LIVE], [ACME]),
        (set(), [], [ACME]),
    ],
)
def test_a_limited_admin_token_does_everything_inside_its_limits(
    limits: set[str], everything: list[ResourceLocation], only_read: list[ResourceLocation]
):
    token = actor(Permit(ADMIN, ACME), limited_to=frozenset(limits))
    assert [where for where in PLACES if may(token, ADMIN, where)] == everything
    assert [where for where in PLACES if may(token, READ, where) and where not in everything] == only_read


# What holds for all permits and limits

ids = st.sampled_from(("", "p", "q", "r"))
modes = st.sampled_from(("", "STAGING", "PRODUCTION"))
organizations = st.sampled_from(("acme", "other"))


def places(mode: st.SearchStrategy[str]) -> st.SearchStrategy[ResourceLocation]:
    return st.builds(
        ResourceLocation,
        organizations,
        project=ids,
        environment=ids,
        mode=mode,
        service=ids,
        cluster=ids,
        item=ids,
    )


wheres = places(modes)
needs = st.sampled_from(NEEDS)
scopes = st.integers(0, 15).map(Scope)
permits = st.lists(st.builds(Permit, scopes, wheres), max_size=4)
limits = st.none() | st.frozensets(st.sampled_from(("p", "q", "r", "s")), max_size=3)
actors = st.builds(lambda permits, limits: actor(*permits, limited_to=limits), permits, limits)


@given(permits, permits, limits, needs, wheres)
def test_adding_permits_never_removes_a_right(few, more, limits, need, where):
    if may(actor(*few, limited_to=limits), need, where):
        assert may(actor(*few, *more, limited_to=limits), need, where)


@given(permits, needs, wheres)
def test_any_permission_includes_reading_in_the_same_place(permits, need, where):
    if may(actor(*permits), need, where):
        assert may(actor(*permits), READ, where)
        assert may(actor(*permits), READ, ResourceLocation(where.organization))


@given(actors, needs, wheres)
def test_nothing_outside_an_actors_organizations_is_allowed(who, need, where):
    if where.organization not in who.organizations:
        assert not may(who, need, where)


@given(permits, limits, needs, wheres)
def test_limiting_a_token_to_resources_never_adds_a_permission(permits, limits, need, where):
    if may(actor(*permits, limited_to=limits), need, where):
        assert may(actor(*permits), need, where)


@given(actors, needs, wheres)
def test_a_limited_token_is_never_allowed_what_its_limits_do_not_contain(who, need, where):
    if who.limited_to is not None and may(who, need, where):
        reads_its_organization = need is READ and where == ResourceLocation(
            where.organization, mode=where.mode
        )
        assert reads_its_organization or not who.limited_to.isdisjoint(where.ids)


@given(actors, needs, wheres, wheres)
def test_a_permission_in_a_place_holds_everywhere_below_it(who, need, where, other):
    if may_below(who, need, where) and where.contains(other):
        assert may(who, need, other)


@given(actors, needs, wheres)
def test_an_action_allowed_nowhere_is_refused_everywhere(who, need, where):
    if not may_somewhere(who, need):
        assert not may(who, need, where)


families = st.sampled_from(("project", "environment", "cluster", "application", "variable"))


@given(actors, wheres, families, st.sampled_from(("p", "q", "r", "s")), modes)
def test_the_ids_that_a_list_looks_up_include_every_readable_item(who, where, family, id, mode):
    ids = ids_to_look_up(who, where)
    if not may_below(who, READ, where) and ids is not None and may(who, READ, where.below(family, id, mode)):
        assert id in ids


@given(wheres, families, st.sampled_from(("p", "q")), modes)
def test_a_resource_location_contains_its_direct_children(where, family, id, mode):
    deeper = where.environment or where.service or where.mode or where.cluster or where.item
    if not (deeper or (family == "project" and where.project)):
        assert where.contains(where.below(family, id, mode))


def test_the_table_of_resource_locations_has_no_duplicates():
    assert len({astuple(where) for where in PLACES}) == len(PLACES)
