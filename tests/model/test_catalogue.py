"""The catalogue of cloud regions is complete, consistent and spelled as the providers spell it."""

from __future__ import annotations

import re

import msgspec
import pytest

from tests.tables import rows
from windlass.core.words.regions import COUNTRIES, REGIONS, CloudRegion

EVERY = [
    pytest.param(cloud, region, id=f"{cloud}-{region.name}") for cloud in REGIONS for region in REGIONS[cloud]
]


def pick(cloud: str, name: str) -> CloudRegion:
    return next(region for region in REGIONS[cloud] if region.name == name)


def letters(cloud: str, name: str) -> str:
    return "".join(zone[-1] for zone in pick(cloud, name).zones)


def test_the_catalogue_has_regions_of_four_cloud_providers() -> None:
    assert list(REGIONS) == ["aws", "gcp", "azure", "scaleway"]


@rows(("cloud", "region"), EVERY)
def test_every_region_has_name_country_and_city(cloud: str, region: CloudRegion) -> None:
    assert re.fullmatch(r"[a-z][a-z0-9-]+", region.name)
    assert re.fullmatch(r"[A-Z]{2}", region.country_code)
    assert region.country
    assert region.city


@rows(("cloud", "region"), EVERY)
def test_zones_of_a_region_are_distinct_and_named_after_the_region(cloud: str, region: CloudRegion) -> None:
    assert len(set(region.zones)) == len(region.zones)
    if cloud == "azure":
        assert region.zones in ((), ("1", "2", "3"))
    else:
        assert len(region.zones) >= 3
        assert all(zone.startswith(region.name) and zone != region.name for zone in region.zones)


@pytest.mark.parametrize("cloud", REGIONS)
def test_a_region_is_listed_once(cloud: str) -> None:
    names = [region.name for region in REGIONS[cloud]]
    assert len(set(names)) == len(names)


def test_every_country_of_the_catalogue_is_used_by_a_region() -> None:
    assert {region.country_code for regions in REGIONS.values() for region in regions} == set(COUNTRIES)


@pytest.mark.parametrize(("cloud", "least"), [("aws", 38), ("gcp", 43), ("azure", 57), ("scaleway", 3)])
def test_the_catalogue_has_at_least_the_known_number_of_regions(cloud: str, least: int) -> None:
    assert len(REGIONS[cloud]) >= least


def test_the_commercial_regions_of_aws_are_at_least_34() -> None:
    apart = ("cn-", "us-gov-")
    assert len([region for region in REGIONS["aws"] if not region.name.startswith(apart)]) >= 34


@rows(
    ("cloud", "name", "expected"),
    [
        ("aws", "us-east-1", "abcdef"),
        ("aws", "us-west-1", "abc"),
        ("aws", "us-west-2", "abcd"),
        ("aws", "ca-central-1", "abd"),
        ("aws", "ap-northeast-1", "acd"),
        ("aws", "ap-northeast-2", "abcd"),
        ("aws", "eu-west-3", "abc"),
        ("gcp", "us-central1", "abcf"),
        ("gcp", "us-east1", "bcd"),
        ("gcp", "europe-west1", "bcd"),
        ("gcp", "europe-west9", "abc"),
        ("azure", "westeurope", "123"),
        ("azure", "westus", ""),
        ("scaleway", "fr-par", "123"),
    ],
)
def test_availability_zones_have_the_letters_of_their_provider(cloud: str, name: str, expected: str) -> None:
    assert letters(cloud, name) == expected


def test_availability_zones_are_spelled_as_their_provider_spells_them() -> None:
    assert pick("aws", "eu-west-3").zones == ("eu-west-3a", "eu-west-3b", "eu-west-3c")
    assert pick("gcp", "europe-west1").zones == ("europe-west1-b", "europe-west1-c", "europe-west1-d")
    assert pick("azure", "francecentral").zones == ("1", "2", "3")
    assert pick("scaleway", "nl-ams").zones == ("nl-ams-1", "nl-ams-2", "nl-ams-3")


@pytest.mark.parametrize(
    ("cloud", "name", "arm"),
    [
        ("aws", "eu-west-3", True),
        ("gcp", "us-central1", True),
        ("gcp", "europe-west12", False),
        ("azure", "westus2", True),
        ("azure", "francesouth", False),
        ("scaleway", "fr-par", True),
    ],
)
def test_arm_support_is_listed_for_regions_where_it_was_announced(cloud: str, name: str, arm: bool) -> None:
    assert pick(cloud, name).arm_supported is arm


def test_a_region_is_encoded_with_its_fields_in_declared_order() -> None:
    assert msgspec.json.decode(msgspec.json.encode(pick("aws", "eu-west-3"))) == {
        "name": "eu-west-3",
        "country_code": "FR",
        "country": "France",
        "city": "Paris",
        "arm_supported": True,
        "zones": ["eu-west-3a", "eu-west-3b", "eu-west-3c"],
    }
    assert CloudRegion.__struct_fields__ == (
        "name",
        "country_code",
        "country",
        "city",
        "arm_supported",
        "zones",
    )
