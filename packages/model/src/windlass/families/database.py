"""A database: a server of a supported type, with storage that outlives its containers."""

from typing import Annotated, Literal

from msgspec import Meta

from windlass.core.declare.document import Document
from windlass.core.declare.executions import runs_commands
from windlass.core.declare.exported import GROUPS, Attribute, ExportedResource, same
from windlass.core.declare.fields import (
    WITHOUT_EFFECT,
    Description,
    Gibibytes,
    Icon,
    Line,
    Maybe,
    Mebibytes,
    Millicores,
    Name,
    absent,
    example,
    fixed,
    shaped,
    stays,
)
from windlass.core.declare.groups import (
    AnnotationsGroupOfService,
    AnnotationsGroups,
    LabelsGroupOfService,
    LabelsGroups,
)
from windlass.core.declare.resource import Family, Owner, Shown, Spec, clash
from windlass.core.declare.shapes import can_be_cloned
from windlass.core.declare.traits import deployable, has_deployments, has_links, has_logs
from windlass.families.environment import environment
from windlass.families.master_credentials import about_databases

Kind = Literal["POSTGRESQL", "MYSQL", "MONGODB", "REDIS"]
_CONTAINER_MEMORY = {"POSTGRESQL": 100, "REDIS": 100, "MYSQL": 512, "MONGODB": 256}
_MANAGED_MEMORY = 100
INSTANCE_TYPE = "standard"
"""The instance type of a MANAGED database that requests none. cpu and memory define its size."""

DISK_OF_CONTAINERS = "aws-ebs-gp3-0"
"""The instance type of a CONTAINER database, which has none, for clients of the full interface: each
database has one there, and this is the usual word. They send it back with what they have read."""


class Database(Spec):
    name: Annotated[Name, example("orders")]
    description: Annotated[Description, example("What people have ordered")] = ""
    type: Annotated[Kind, fixed(), example("POSTGRESQL"), Meta(description="Kind of server")]
    version: Annotated[
        str,
        Meta(
            max_length=64,
            pattern=shaped(r"^[0-9A-Za-z][0-9A-Za-z._-]*\Z", "must be a version such as 16"),
            description="Version such as 16; the environment lists the versions that it can run",
            examples=["16"],
        ),
        stays(),
    ]
    mode: Annotated[
        Literal["CONTAINER", "MANAGED"],
        fixed(),
        example("CONTAINER"),
        Meta(description="Both run on the engine of the environment"),
    ]
    accessibility: Annotated[
        Literal["PRIVATE", "PUBLIC"], Meta(description="PUBLIC: also reached from outside of its environment")
    ] = "PRIVATE"
    cpu: Millicores = 250
    memory: Annotated[Maybe[Mebibytes], example(512)] = absent
    storage: Annotated[Gibibytes, stays()] = 10
    instance_type: Annotated[Maybe[Line], WITHOUT_EFFECT, stays()] = absent
    disk_type: Annotated[Maybe[Literal["gp2", "gp3"]], WITHOUT_EFFECT, stays()] = absent
    annotations_groups: AnnotationsGroups = []
    labels_groups: LabelsGroups = []
    icon_uri: Icon = "app://windlass/database"


class DatabaseShown(Shown):
    memory: Annotated[int, example(512)]
    annotations_groups: list[AnnotationsGroupOfService] = []
    labels_groups: list[LabelsGroupOfService] = []
    environment: Owner
    host: Annotated[
        Maybe[str],
        Meta(
            description="PUBLIC: where it is reached from outside; PRIVATE: its name inside the environment"
        ),
    ] = absent
    port: Maybe[int] = absent
    maximum_cpu: int = 0
    maximum_memory: int = 0
    disk_encrypted: bool = False
    service_type: str = "DATABASE"


def normalise(spec: Database) -> None:
    if spec.mode == "CONTAINER" and spec.instance_type == DISK_OF_CONTAINERS:
        spec.instance_type = absent
    if spec.mode == "CONTAINER" and spec.instance_type:
        raise clash("instance_type", "belongs to mode MANAGED; a CONTAINER takes cpu and memory")
    if spec.mode == "CONTAINER" and spec.disk_type:
        raise clash("disk_type", "belongs to mode MANAGED")
    if spec.mode == "MANAGED" and not spec.instance_type:
        spec.instance_type = INSTANCE_TYPE
    if not spec.memory:
        spec.memory = _MANAGED_MEMORY if spec.mode == "MANAGED" else _CONTAINER_MEMORY[spec.type]


def in_full(document: Document) -> Document:
    """Returns the document for clients of the full interface, which read an instance type in each."""
    return {**document, "instance_type": document.get("instance_type") or DISK_OF_CONTAINERS}


database = Family(
    "database",
    Database,
    parent=environment,
    shown=DatabaseShown,
    param="db_id",
    normalise=normalise,
    in_full=in_full,
    traits=(deployable(), has_deployments, can_be_cloned, has_links, has_logs, runs_commands),
    actions=about_databases,
    about="cpu is in millicores, memory in MB, storage in GB. Both modes run on the environment's cluster.",
    exported=ExportedResource(
        "qovery_database",
        (
            *same("name icon_uri type version mode accessibility"),
            Attribute("cpu", least=250),
            Attribute("memory", least=100),
            Attribute("storage", least=10),
            Attribute("instance_type"),
            *GROUPS,
        ),
    ),
)
