"""Reports of the build usage of a deployment of an environment, behind links that expire."""

from typing import Annotated, Final

from msgspec import Meta

from windlass.core.declare.actions import post
from windlass.core.declare.fields import Id, example, shown_once
from windlass.core.declare.registry import Actions
from windlass.core.declare.resource import Shown, Spec
from windlass.families.environment import environment

MAX_REPORT_SECONDS: Final = 30 * 86_400


class BuildUsageReportRequest(Spec):
    """A request for a report."""

    execution_id: Annotated[
        Id,
        Meta(description="The `execution_id` of a deployment of the environment, or of one of its services"),
        example("db01511f-abe4-5113-a2dc-90c7f2efb14a"),
    ]
    report_expiration_in_seconds: Annotated[
        int,
        Meta(ge=1, le=MAX_REPORT_SECONDS, description="Seconds until the link expires, at most 30 days"),
        example(3600),
    ]


class BuildUsageReport(Shown):
    """The addresses of a report."""

    report_url: Annotated[
        str,
        Meta(description="Shows the report to everyone who has this address, until it expires"),
        shown_once(),
        example("https://windlass.example.com/build-usage-report/…"),
    ]
    delete_report_url: Annotated[
        str,
        Meta(description="Deletes the link: send DELETE or POST, or open it in a browser"),
        shown_once(),
        example("https://windlass.example.com/build-usage-report/…/delete"),
    ]


_DESCRIPTION: Final = (
    "The report shows the processor time and the peak memory of each build of this deployment, as a page "
    "for browsers and as JSON for programs. A value that the engine does not measure is null. The address is "
    "a secret: anyone who has it can read the report without a token."
)

of_environments = Actions(
    environment,
    "Deployments",
    (
        post(
            "deploymentBuildUsageReport",
            BuildUsageReport,
            "Create a link to what the builds of a deployment used",
            _DESCRIPTION,
            id="createDeploymentBuildUsageReport",
            body=BuildUsageReportRequest,
            status=201,
            also=(409,),
        ),
    ),
)
