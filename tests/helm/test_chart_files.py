"""The index of a repository and the description of a chart are read as hostile input."""

from __future__ import annotations

import pytest

from windlass.helm.chart_error import ChartError
from windlass.helm.chart_files import read_description, read_index
from windlass.helm.chart_versions import is_release, newest_version_first
from windlass.helm.failures import explain_output


def test_versions_are_ordered_as_semantic_versions():
    versions = ["1.2.0", "1.10.0", "1.10.0-rc.2", "1.10.0-rc.10", "v2.0.0", "1.10.0-alpha", "odd"]
    assert newest_version_first(versions) == [
        "v2.0.0",
        "1.10.0",
        "1.10.0-rc.10",
        "1.10.0-rc.2",
        "1.10.0-alpha",
        "1.2.0",
        "odd",
    ]
    assert [is_release(version) for version in ("1.0.0", "1.0.0-rc1", "odd")] == [True, False, False]


def test_an_index_gives_charts_with_address_and_digest():
    digest = "a" * 64
    index = f"""
entries:
  shop:
  - version: 1.0.0
    urls: [shop-1.0.0.tgz]
    digest: sha256:{digest}
  - version: 1.1.0
    urls: [https://cdn.example.com/shop.tgz]
  - version: 2.0.0
  - just text
  ../evil:
  - version: 1.0.0
    urls: [a]
"""
    charts = read_index(index.encode())
    assert [(entry.version, entry.url, entry.digest) for entry in charts["shop"]] == [
        ("1.1.0", "https://cdn.example.com/shop.tgz", ""),
        ("1.0.0", "shop-1.0.0.tgz", digest),
    ]
    assert [*charts] == ["shop"]


def test_a_description_names_what_a_chart_needs():
    description = read_description(b"name: shop\nversion: 1.0.0\ndependencies:\n- name: redis\n- other\n")
    assert (description.name, description.version) == ("shop", "1.0.0")
    assert [needed.name for needed in description.dependencies] == ["redis"]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"name: shop",
        b"version: 1.0.0",
        b"name: shop\nversion: 1.0.0\ntype: library",
        b"!!python/object:os.system {}",
    ],
)
def test_what_is_no_chart_is_refused(content: bytes):
    with pytest.raises(ChartError):
        read_description(content)


def test_a_failure_is_explained_by_the_last_remark_or_error():
    lines = ["windlass: helm upgrade", "Error: UPGRADE FAILED: pre-upgrade hooks failed", "boom"]
    assert explain_output(lines) == "Look at its log: UPGRADE FAILED: pre-upgrade hooks failed"
    told = [*lines, "windlass: the hook migrate has failed. Its last lines: boom"]
    assert explain_output(told) == "The hook migrate has failed. Its last lines: boom"
    assert explain_output(["windlass: helm upgrade", "no reason"]) == ""
