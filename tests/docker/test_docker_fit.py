"""No image makes lists and descriptions of a Docker engine longer than they are read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.docker.watched import wanted
from windlass.docker.client.image_limits import why_unfit
from windlass.docker.create import container, refuse_unfit
from windlass.engines.engine import EngineError


def some(count: int) -> dict[str, dict[str, str]]:
    return {f"{number}/tcp": {} for number in range(1, count + 1)}


FITS: Mapping[str, Mapping[str, Any]] = {
    "ports": {"ExposedPorts": some(256)},
    "volumes": {"Volumes": some(64)},
    "labels": {"Labels": {"x" * 16_000: "x" * 200_000}},
    "command": {"Entrypoint": ["sh", "-c"], "Cmd": ["x" * 32_000]},
    "nothing": {"ExposedPorts": None, "Volumes": None, "Labels": None, "Cmd": None, "Entrypoint": None},
}
UNFIT: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "ports": ({"ExposedPorts": some(257)}, "Expose fewer ports in the image: EXPOSE names 257"),
    "volumes": ({"Volumes": some(65)}, "Declare fewer volumes in the image: VOLUME has 65"),
    "labels": ({"Labels": {"x" * 17_000: ""}}, "Use an image with fewer labels"),
    "escaped": ({"Labels": {"<" * 3_000: ""}}, "Use an image with fewer labels"),
    "command": ({"Entrypoint": ["x" * 17_000], "Cmd": ["x" * 17_000]}, "Put the command of the image into a"),
    "values": ({"Labels": {"x": "x" * 270_000}}, "Shorten labels and variables of the image"),
    "variables": ({"Env": ["A=" + "x" * 270_000]}, "Shorten labels and variables of the image"),
    "health": (
        {"Healthcheck": {"Test": ["CMD", "x" * 270_000]}},
        "Shorten labels and variables of the image",
    ),
}


@pytest.mark.parametrize("case", FITS)
def test_image_metadata_within_the_limits_is_accepted(case):
    assert not why_unfit({"Config": FITS[case]})


@pytest.mark.parametrize("case", UNFIT)
def test_image_metadata_over_the_limits_is_refused_with_advice(case):
    config, why = UNFIT[case]
    assert why_unfit({"Config": config}).startswith(why)
    with pytest.raises(EngineError, match=why[:30]):
        refuse_unfit(wanted(), {"Config": config})


def test_a_service_with_an_overlong_command_or_environment_is_refused():
    refuse_unfit(wanted(command=("x" * 30_000,), variables={"A": "x" * 500_000}), {})
    with pytest.raises(EngineError, match="Put the command into a file of the image"):
        refuse_unfit(wanted(command=("x" * 33_000,)), {})
    with pytest.raises(EngineError, match="Shorten the variables"):
        refuse_unfit(wanted(variables={"A": "x" * 530_000}), {})


def test_labels_of_groups_begin_with_the_name_of_windlass():
    image = {"Config": {"Labels": {"traefik.enable": "true"}}}
    workload = wanted(labels={"traefik.enable": "true", "service": "another"})
    body = container(
        workload,
        0,
        installation="one",
        network="n",
        aliases=(),
        publish="127.0.0.1",
        host_ports=(),
        image=image,
    )
    labels = body["Labels"]
    assert labels["traefik.enable"] == ""
    assert labels["windlass.label.traefik.enable"] == "true"
    assert labels["windlass.label.service"] == "another"
    assert labels["windlass.service"] == workload.service
