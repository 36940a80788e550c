"""The database. This is the only package with SQL; SQLite and PostgreSQL share its statements.

Queries are methods of the tables in `Reads`. A change is a function that is passed to `Store.write` and
receives a `Tx`.
"""

from windlass.store.claim_order import Idle
from windlass.store.nudges import (
    CERTIFICATE_PREFIX,
    CLUSTER_PREFIX,
    MAY_HAVE_MISSED,
    ROUTE_PREFIX,
    cluster_topic,
    events_topic,
    inside_topic,
    route_topic,
    status_topic,
)
from windlass.store.store import Store
from windlass.store.tables.audit import EventFilter
from windlass.store.tables.certificates import CertificateRow, OrderRow
from windlass.store.tables.challenge_records import ChallengeRecordRow
from windlass.store.tables.deliveries import DeliveryRow
from windlass.store.tables.deployment_inputs import ResourceVersionRow
from windlass.store.tables.deployment_stages import (
    OpenInStage,
    PlacedService,
    StagedServiceRow,
    StageRow,
)
from windlass.store.tables.deployments import DeploymentRow
from windlass.store.tables.events import EventRow
from windlass.store.tables.idempotency import IdempotentAnswer
from windlass.store.tables.key_holders import KeyHolder
from windlass.store.tables.names import NameRow
from windlass.store.tables.owners import NO_SURROUNDINGS, OwnerRow, Surroundings
from windlass.store.tables.queues import (
    FIRST_PLACE,
    PlaceQueues,
    Queue,
    builds_beside,
    housekeeping_beside,
    is_for_builds,
    is_owned,
    queue_of,
    queues_of,
    runs_beside,
    work_class,
)
from windlass.store.tables.receivers import Receiver
from windlass.store.tables.resources import Row
from windlass.store.tables.runs import RunRow
from windlass.store.tables.sealed import ACME_ACCOUNTS, CERTIFICATE_KEY, FACT, ORDER_KEY
from windlass.store.tables.statuses import StatusRow
from windlass.store.tables.table import MAX_REQUEST_COST, NEVER, DatabaseSession, NameTaken
from windlass.store.tables.timetables import TimetableRow
from windlass.store.tables.work import (
    Claim,
    PlaceHolder,
)
from windlass.store.transaction import Reads, Tx, Write

__all__ = (
    "ACME_ACCOUNTS",
    "CERTIFICATE_KEY",
    "CERTIFICATE_PREFIX",
    "CLUSTER_PREFIX",
    "FACT",
    "FIRST_PLACE",
    "MAX_REQUEST_COST",
    "MAY_HAVE_MISSED",
    "NEVER",
    "NO_SURROUNDINGS",
    "ORDER_KEY",
    "ROUTE_PREFIX",
    "CertificateRow",
    "ChallengeRecordRow",
    "Claim",
    "DatabaseSession",
    "DeliveryRow",
    "DeploymentRow",
    "EventFilter",
    "EventRow",
    "IdempotentAnswer",
    "Idle",
    "KeyHolder",
    "NameRow",
    "NameTaken",
    "OpenInStage",
    "OrderRow",
    "OwnerRow",
    "PlaceHolder",
    "PlaceQueues",
    "PlacedService",
    "Queue",
    "Reads",
    "Receiver",
    "ResourceVersionRow",
    "Row",
    "RunRow",
    "StageRow",
    "StagedServiceRow",
    "StatusRow",
    "Store",
    "Surroundings",
    "TimetableRow",
    "Tx",
    "Write",
    "builds_beside",
    "cluster_topic",
    "events_topic",
    "housekeeping_beside",
    "inside_topic",
    "is_for_builds",
    "is_owned",
    "queue_of",
    "queues_of",
    "route_topic",
    "runs_beside",
    "status_topic",
    "work_class",
)
