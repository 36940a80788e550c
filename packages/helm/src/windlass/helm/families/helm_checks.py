"""Operations that read a chart before a Helm service is created from it."""

from typing import Annotated

from windlass.core.declare.actions import post
from windlass.core.declare.fields import shown_in_examples
from windlass.core.declare.registry import Actions
from windlass.core.declare.resource import Shown, Spec
from windlass.core.declare.shapes import GitRepositoryRequest
from windlass.families.environment import environment
from windlass.helm.families.shapes import ChartSource


class HelmCheckRequest(Spec):
    git_repository: Annotated[GitRepositoryRequest, shown_in_examples()]


class CheckedChart(Shown):
    """A chart that can be read."""

    chart_name: str = ""
    chart_version: str = ""


class DefaultValuesRequest(Spec):
    source: Annotated[ChartSource, shown_in_examples()]


of_environments = Actions(
    environment,
    "Helm",
    (
        post(
            "checkHelmRepository",
            CheckedChart,
            "Check whether a repository has a chart",
            "Fetches the newest commit of the branch and runs nothing. 400 if there is no chart in the "
            "folder.",
            id="checkHelmRepository",
            body=HelmCheckRequest,
            only_reads=True,
            outside=True,
            also=(409,),
        ),
        post(
            "helmDefaultValues",
            None,
            "Read the values.yaml of a chart",
            "409 with the reason if the chart cannot be read.",
            id="getHelmDefaultValues",
            body=DefaultValuesRequest,
            only_reads=True,
            media_type="text/plain",
            status=201,
            outside=True,
            also=(409,),
        ),
    ),
)
