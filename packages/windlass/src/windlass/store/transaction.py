"""All tables together: `Reads` for queries, and `Tx` for a change.

A change is a function that receives a `Tx`. It sees the database as if it were alone, and may be run again
from the start. `Reads` contains only the reading class of each table.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from windlass.base import ids
from windlass.store.nudges import events_topic, inside_topic
from windlass.store.tables.audit import AuditSearch
from windlass.store.tables.branch_heads import BranchHeadChanges, BranchHeadTable
from windlass.store.tables.browser_sessions import BrowserSessionChanges, BrowserSessionTable
from windlass.store.tables.budgets import BudgetChanges, BudgetTable
from windlass.store.tables.certificates import DomainCertificateChanges, DomainCertificateTable
from windlass.store.tables.challenge_records import ChallengeRecordChanges, ChallengeRecordTable
from windlass.store.tables.counters import CounterTable
from windlass.store.tables.deletions import DeletionChanges, DeletionTable
from windlass.store.tables.deliveries import DeliveryChanges, DeliveryTable
from windlass.store.tables.deployment_inputs import DeploymentInputsChanges, DeploymentInputsTable
from windlass.store.tables.deployment_stages import DeploymentStageChanges, DeploymentStageTable
from windlass.store.tables.deployments import DeploymentChanges, DeploymentTable
from windlass.store.tables.events import EventChanges, EventTable
from windlass.store.tables.facts import FactChanges, FactTable
from windlass.store.tables.git_pushes import GitPushChanges, GitPushTable
from windlass.store.tables.git_webhooks import GitWebhookChanges, GitWebhookTable
from windlass.store.tables.idempotency import IdempotentAnswerChanges, IdempotentAnswerTable
from windlass.store.tables.identities import IdentityChanges, IdentityTable
from windlass.store.tables.image_pushes import ImagePushChanges, ImagePushTable
from windlass.store.tables.job_outputs import JobOutputChanges, JobOutputTable
from windlass.store.tables.key_holders import KeyHolderChanges, KeyHolderTable
from windlass.store.tables.links import LinkChanges, LinkTable
from windlass.store.tables.lists import ListChanges, ListTable
from windlass.store.tables.names import NameChanges, NameTable
from windlass.store.tables.owners import OwnerChanges, OwnerTable
from windlass.store.tables.passkeys import PasskeyChanges, PasskeyTable
from windlass.store.tables.people import PeopleChanges, PeopleTable
from windlass.store.tables.plans import PlanChanges, PlanTable
from windlass.store.tables.receivers import ReceiverChanges, ReceiverTable
from windlass.store.tables.registry_webhooks import RegistryWebhookChanges, RegistryWebhookTable
from windlass.store.tables.resources import ResourceChanges, ResourceTable, Row
from windlass.store.tables.runs import RunChanges, RunTable
from windlass.store.tables.sealed import SealedChanges, SealedTable
from windlass.store.tables.second_factors import SecondFactorChanges, SecondFactorTable
from windlass.store.tables.service_uses import ServiceUseChanges, ServiceUseTable
from windlass.store.tables.statuses import StatusChanges, StatusTable
from windlass.store.tables.table import STORE_COST, ChangeSession, DatabaseSession
from windlass.store.tables.terraform import TerraformChanges, TerraformTable
from windlass.store.tables.timetables import TimetableChanges, TimetableTable
from windlass.store.tables.tokens import TokenChanges, TokenTable
from windlass.store.tables.tree import ResourceTree
from windlass.store.tables.volumes import VolumeChanges, VolumeTable
from windlass.store.tables.work import WorkChanges, WorkTable

T = TypeVar("T")
Write = Callable[["Tx"], Awaitable[T]]


class Reads:
    """The reading classes of all tables, on one session."""

    __slots__ = (
        "audit", "branch_heads", "browser_sessions", "budgets", "certificates", "challenge_records",
        "counters", "deletions", "deliveries", "deployment_inputs", "deployment_stages", "deployments",
        "events", "facts", "git_pushes", "git_webhooks", "idempotency", "identities", "image_pushes",
        "job_outputs", "key_holders", "links", "lists", "names", "owners", "passkeys", "people",
        "plans", "receivers", "registry_webhooks", "resources", "runs", "sealed", "second_factors",
        "service_uses", "session", "statuses", "terraform", "timetables", "tokens", "tree", "volumes", "work",
    )  # fmt: skip

    def __init__(self, session: DatabaseSession) -> None:
        self.session = session
        self.audit = AuditSearch(session)
        self.branch_heads = BranchHeadTable(session)
        self.browser_sessions = BrowserSessionTable(session)
        self.budgets = BudgetTable(session)
        self.certificates = DomainCertificateTable(session)
        self.challenge_records = ChallengeRecordTable(session)
        self.counters = CounterTable(session)
        self.deletions = DeletionTable(session)
        self.deliveries = DeliveryTable(session)
        self.deployment_inputs = DeploymentInputsTable(session)
        self.deployment_stages = DeploymentStageTable(session)
        self.deployments = DeploymentTable(session)
        self.events = EventTable(session)
        self.facts = FactTable(session)
        self.git_pushes = GitPushTable(session)
        self.git_webhooks = GitWebhookTable(session)
        self.idempotency = IdempotentAnswerTable(session)
        self.identities = IdentityTable(session)
        self.image_pushes = ImagePushTable(session)
        self.job_outputs = JobOutputTable(session)
        self.key_holders = KeyHolderTable(session)
        self.links = LinkTable(session)
        self.lists = ListTable(session)
        self.names = NameTable(session)
        self.owners = OwnerTable(session)
        self.passkeys = PasskeyTable(session)
        self.people = PeopleTable(session)
        self.plans = PlanTable(session)
        self.receivers = ReceiverTable(session)
        self.registry_webhooks = RegistryWebhookTable(session)
        self.resources = ResourceTable(session)
        self.runs = RunTable(session)
        self.sealed = SealedTable(session)
        self.second_factors = SecondFactorTable(session)
        self.service_uses = ServiceUseTable(session)
        self.statuses = StatusTable(session)
        self.terraform = TerraformTable(session)
        self.timetables = TimetableTable(session)
        self.tokens = TokenTable(session)
        self.tree = ResourceTree(session)
        self.volumes = VolumeTable(session)
        self.work = WorkTable(session)


class Tx(Reads):
    """A change in progress, with the changing classes of all tables.

    The same object is reused for all changes of a group, one after the other. Events and nudges take effect
    only with the commit.
    """

    __slots__ = ()

    session: ChangeSession
    branch_heads: BranchHeadChanges
    browser_sessions: BrowserSessionChanges
    budgets: BudgetChanges
    certificates: DomainCertificateChanges
    challenge_records: ChallengeRecordChanges
    deletions: DeletionChanges
    deliveries: DeliveryChanges
    deployment_inputs: DeploymentInputsChanges
    deployment_stages: DeploymentStageChanges
    deployments: DeploymentChanges
    events: EventChanges
    facts: FactChanges
    git_pushes: GitPushChanges
    git_webhooks: GitWebhookChanges
    idempotency: IdempotentAnswerChanges
    identities: IdentityChanges
    image_pushes: ImagePushChanges
    job_outputs: JobOutputChanges
    key_holders: KeyHolderChanges
    links: LinkChanges
    lists: ListChanges
    names: NameChanges
    owners: OwnerChanges
    passkeys: PasskeyChanges
    people: PeopleChanges
    plans: PlanChanges
    receivers: ReceiverChanges
    registry_webhooks: RegistryWebhookChanges
    resources: ResourceChanges
    runs: RunChanges
    sealed: SealedChanges
    second_factors: SecondFactorChanges
    service_uses: ServiceUseChanges
    statuses: StatusChanges
    terraform: TerraformChanges
    timetables: TimetableChanges
    tokens: TokenChanges
    volumes: VolumeChanges
    work: WorkChanges

    def __init__(self, session: DatabaseSession, now: int = 0) -> None:
        # `super().__init__()` is not called, because it would needlessly create the reading classes for each
        # group.
        self.session = changing = ChangeSession(session, now)
        self.audit = AuditSearch(changing)
        self.branch_heads = BranchHeadChanges(changing)
        self.browser_sessions = BrowserSessionChanges(changing)
        self.budgets = BudgetChanges(changing)
        self.certificates = DomainCertificateChanges(changing)
        self.challenge_records = ChallengeRecordChanges(changing)
        self.counters = CounterTable(changing)
        self.deletions = DeletionChanges(changing)
        self.deliveries = DeliveryChanges(changing)
        self.deployment_inputs = DeploymentInputsChanges(changing)
        self.deployment_stages = DeploymentStageChanges(changing)
        self.deployments = DeploymentChanges(changing)
        self.events = EventChanges(changing)
        self.facts = FactChanges(changing)
        self.git_pushes = GitPushChanges(changing)
        self.git_webhooks = GitWebhookChanges(changing)
        self.idempotency = IdempotentAnswerChanges(changing)
        self.identities = IdentityChanges(changing)
        self.image_pushes = ImagePushChanges(changing)
        self.job_outputs = JobOutputChanges(changing)
        self.key_holders = KeyHolderChanges(changing)
        self.links = LinkChanges(changing)
        self.lists = ListChanges(changing)
        self.names = NameChanges(changing)
        self.owners = OwnerChanges(changing)
        self.passkeys = PasskeyChanges(changing)
        self.people = PeopleChanges(changing)
        self.plans = PlanChanges(changing)
        self.receivers = ReceiverChanges(changing)
        self.registry_webhooks = RegistryWebhookChanges(changing)
        self.resources = ResourceChanges(changing)
        self.runs = RunChanges(changing)
        self.sealed = SealedChanges(changing)
        self.second_factors = SecondFactorChanges(changing)
        self.service_uses = ServiceUseChanges(changing)
        self.statuses = StatusChanges(changing)
        self.terraform = TerraformChanges(changing)
        self.timetables = TimetableChanges(changing)
        self.tokens = TokenChanges(changing)
        self.tree = ResourceTree(changing)
        self.volumes = VolumeChanges(changing)
        self.work = WorkChanges(changing)

    @property
    def now(self) -> int:
        return self.session.now

    def emit(
        self,
        kind: str,
        org: str,
        target: str,
        body: bytes,
        *,
        family: str = "",
        subject: str = "",
        subject_family: str = "",
        actor: str = "",
        origin: str = "",
        project: str = "",
        environment: str = "",
    ) -> None:
        """Records an event. The event gets its number with the commit of the group, and wakes followers."""
        session = self.session
        session.nudges.append(events_topic(org))
        if inside := environment or project:
            session.nudges.append(inside_topic(inside))
        session.emitted.append(
            (
                ids.new_id(), org, kind, target, session.now, body,
                family, subject or target, subject_family or family, actor, origin, project, environment,
            )
        )  # fmt: skip

    def nudge(self, topic: str) -> None:
        """Wakes the listeners for a word on every replica, after the commit."""
        self.session.nudge(topic)

    def measure(self, metric: str, seconds: float, *labels: str) -> None:
        """Adds a measurement to the metrics of this process, after the commit."""
        self.session.measured.append((metric, seconds, labels))

    def limit(self, cost: int) -> None:
        """Limits the further cost of this change."""
        self.session.left = cost

    async def foresee_copy(self, row: Row) -> None:
        """Raises Conflict before anything is written if copying a resource with its descendants would cost
        too much.

        Refusing after a write is expensive, because the whole group of changes would have to be repeated.
        """
        self.session.foresee(STORE_COST * (1 + len(await self.tree.below(row.id))))

    def spend_rewrites(self, count: int, size: int) -> None:
        """Charges the cost of writing documents again that contain one of this size."""
        self.session.spend(count * (STORE_COST + (size >> 10)))

    async def foresee_removal(self, row: Row) -> list[str]:
        """Returns the descendants of a resource, and charges the cost of removing them."""
        below = await self.tree.below(row.id)
        self.session.spend(1 + len(below))
        return below

    async def remove(self, row: Row) -> list[str]:
        """Removes a resource and its descendants from all tables. Returns the ids of the removed services."""
        below = await self.foresee_removal(row)
        await self.lists.remove(row.parent, row.family, row.pos)
        return [id for id in (row.id, *below) if await self._delete_of(id)]

    async def _delete_of(self, id: str) -> bool:
        for table in (
            self.resources, self.lists, self.links, self.deployments, self.work, self.deletions,
            self.identities, self.volumes, self.names, self.tokens, self.branch_heads, self.terraform,
            self.timetables, self.runs, self.job_outputs, self.git_pushes, self.certificates,
            self.deployment_stages, self.deployment_inputs, self.registry_webhooks, self.image_pushes,
            self.plans, self.service_uses,
        ):  # fmt: skip
            await table.delete_of(id)
        cluster = await self.statuses.remove(id)
        if cluster is not None:
            await self.deletions.record(id, cluster)
        return cluster is not None
