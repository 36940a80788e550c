"""Each alert of the manual fires in its state, none fires in a healthy one, and all read known metrics."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.metrics.prometheus import needs_promtool, promtool, scraped
from tests.running.deployments import deployed
from tests.world import World
from windlass.gateway.traffic import metrics_of

pytestmark = pytest.mark.slow

FOLDER = Path(__file__).parents[2] / "docs/monitoring"
RULES = FOLDER / "alerts.yml"
DASHBOARD = FOLDER / "dashboard.json"
PAGE = (FOLDER / "README.md").read_text()
ALERTS = re.findall(r"- alert: (\w+)", RULES.read_text())
DAY = 86_400
AT = DAY // 8
"""The second at which alerts are looked at. Samples are a minute apart."""

SERVER = 'instance="one:8080",job="windlass"'
ANSWERED = f'windlass_requests_total{{{SERVER},operation="getProject",status="200"}}'
FAILED = f'windlass_requests_total{{{SERVER},operation="getProject",status="503"}}'
SLOW = f'windlass_request_seconds_bucket{{{SERVER},family="project",access="read",le='
ENDED = f'windlass_deployment_duration_seconds_count{{{SERVER},action="deploy",result='
RUNS = f'windlass_runs_total{{{SERVER},family="job",result='
ENDS = "windlass_cluster_certificate_end_timestamp_seconds"
DOMAIN_ENDS = "windlass_domain_certificate_end_timestamp_seconds"
POOL = f"windlass_database_connections{{{SERVER},state="

STEADY, OFF = "1+0x200", "0+0x200"
HEALTHY: Mapping[str, str] = {
    f"up{{{SERVER}}}": STEADY,
    f"windlass_database_up{{{SERVER}}}": STEADY,
    f"windlass_database_writable{{{SERVER}}}": STEADY,
    f'windlass_engine_up{{{SERVER},place="local",engine="docker"}}': STEADY,
    f"windlass_gateway_up{{{SERVER}}}": STEADY,
    f"windlass_place_lost{{{SERVER}}}": OFF,
    f"windlass_memory_measured{{{SERVER}}}": STEADY,
    ANSWERED: "0+600x200",
    FAILED: "0+1x200",
    f'{SLOW}"0.1"}}': "0+600x200",
    f'{SLOW}"2.5"}}': "0+600x200",
    f'{SLOW}"+Inf"}}': "0+600x200",
    f'windlass_queue_oldest_seconds{{{SERVER},queue="deployments"}}': "5+0x200",
    f"windlass_deployments_oldest_seconds{{{SERVER}}}": "60+0x200",
    f'{ENDED}"succeeded"}}': "0+1x200",
    f'{ENDED}"failed"}}': "0+0.1x200",
    f"windlass_instances_wanted{{{SERVER}}}": "3+0x200",
    f'windlass_instances{{{SERVER},place="local",phase="running"}}': "3+0x200",
    f'windlass_instance_restarts_total{{{SERVER},place="local"}}': "0+0.1x200",
    f"windlass_webhooks_failing{{{SERVER}}}": OFF,
    f"windlass_process_open_fds{{{SERVER}}}": "200+0x200",
    f"windlass_process_max_fds{{{SERVER}}}": "65536+0x200",
    f"windlass_disk_free_bytes{{{SERVER}}}": "30+0x200",
    f"windlass_disk_bytes{{{SERVER}}}": "100+0x200",
    f"windlass_disk_free_files{{{SERVER}}}": "30+0x200",
    f"windlass_disk_files{{{SERVER}}}": "100+0x200",
    f'{POOL}"used"}}': STEADY,
    f'{POOL}"most"}}': "8+0x200",
    f"windlass_last_backup_timestamp_seconds{{{SERVER}}}": f"{AT - DAY}+0x200",
    f"windlass_former_key_values{{{SERVER}}}": OFF,
    f'windlass_build_info{{{SERVER},version="1.0.0",commit="a",schema="22"}}': STEADY,
    f'{RUNS}"succeeded"}}': "0+5x200",
    f'{RUNS}"failed"}}': "0+0.1x200",
    f"windlass_due_times_missed_total{{{SERVER}}}": OFF,
    f"windlass_clock_behind_seconds{{{SERVER}}}": OFF,
    f'{ENDS}{{{SERVER},place="east"}}': f"{AT + 90 * DAY}+0x200",
    f'{DOMAIN_ENDS}{{{SERVER},origin="uploaded"}}': f"{AT + 90 * DAY}+0x200",
    f'{DOMAIN_ENDS}{{{SERVER},origin="acme"}}': f"{AT + 2 * DAY}+0x200",
    f"windlass_domain_certificates_overdue{{{SERVER}}}": OFF,
    f"windlass_audit_faults{{{SERVER}}}": OFF,
}
BROKEN: Mapping[str, Mapping[str, str]] = {
    "WindlassDown": {f"up{{{SERVER}}}": OFF},
    "WindlassDatabaseDown": {f"windlass_database_up{{{SERVER}}}": OFF},
    "WindlassEngineDown": {f'windlass_engine_up{{{SERVER},place="local",engine="docker"}}': OFF},
    "WindlassGatewayDown": {f"windlass_gateway_up{{{SERVER}}}": OFF},
    "WindlassPlaceLost": {f"windlass_place_lost{{{SERVER}}}": STEADY},
    "WindlassMemoryUnmeasured": {f"windlass_memory_measured{{{SERVER}}}": OFF},
    "WindlassErrors": {FAILED: "0+20x200"},
    "WindlassSlow": {f'{SLOW}"0.1"}}': "0+500x200"},
    "WindlassWorkWaits": {f'windlass_queue_oldest_seconds{{{SERVER},queue="deployments"}}': "400+0x200"},
    "WindlassDeploymentStuck": {f"windlass_deployments_oldest_seconds{{{SERVER}}}": "9000+0x200"},
    "WindlassDeploymentsFail": {f'{ENDED}"failed"}}': "0+2x200"},
    "WindlassInstancesMissing": {f'windlass_instances{{{SERVER},place="local",phase="running"}}': "2+0x200"},
    "WindlassInstancesRestart": {f'windlass_instance_restarts_total{{{SERVER},place="local"}}': "0+1x200"},
    "WindlassWebhooksFail": {f"windlass_webhooks_failing{{{SERVER}}}": STEADY},
    "WindlassDescriptorsShort": {f"windlass_process_open_fds{{{SERVER}}}": "60000+0x200"},
    "WindlassDiskFull": {f"windlass_disk_free_bytes{{{SERVER}}}": "4+0x200"},
    "WindlassPoolUsedUp": {f'{POOL}"used"}}': "8+0x200"},
    "WindlassBackupOld": {f"windlass_last_backup_timestamp_seconds{{{SERVER}}}": f"{AT - 4 * DAY}+0x200"},
    "WindlassKeyReplacementStuck": {f"windlass_former_key_values{{{SERVER}}}": "7+0x200"},
    "WindlassVersionsDiffer": {
        'windlass_build_info{instance="two:8080",version="1.0.0",commit="b",schema="22"}': STEADY
    },
    "WindlassRunsFail": {f'{RUNS}"failed"}}': "0+1x200"},  # one job that fails each minute
    "WindlassDueTimesMissed": {f"windlass_due_times_missed_total{{{SERVER}}}": "0x170 2x30"},
    "WindlassClockBehind": {f"windlass_clock_behind_seconds{{{SERVER}}}": "3600+0x200"},
    "WindlassCertificateEnds": {f'{ENDS}{{{SERVER},place="east"}}': f"{AT + 9 * DAY}+0x200"},
    "WindlassUploadedCertificateEnds": {
        f'{DOMAIN_ENDS}{{{SERVER},origin="uploaded"}}': f"{AT + 9 * DAY}+0x200"
    },
    "WindlassRenewalsFail": {f"windlass_domain_certificates_overdue{{{SERVER}}}": STEADY},
    "WindlassAuditBroken": {f"windlass_audit_faults{{{SERVER}}}": STEADY},
}


def states(*states: tuple[Mapping[str, str], Iterable[str]], folder: Path) -> tuple[int, str]:
    """Has promtool compare the alerts that fire in each state with the expected ones."""
    tests = [firing(series, expected) for series, expected in states]
    file = folder / "test.yml"
    file.write_text(json.dumps({"rule_files": [str(RULES)], "evaluation_interval": "5m", "tests": tests}))
    return promtool("test", "rules", str(file))


def firing(series: Mapping[str, str], expected: Iterable[str]) -> Mapping[str, Any]:
    samples = [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in expected]
    asked = {"expr": 'count by (alertname) (ALERTS{alertstate="firing"})', "eval_time": f"{AT}s"}
    return {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [asked | {"exp_samples": samples}],
    }


@needs_promtool
def test_promtool_finds_nothing_to_correct_in_the_rules():
    code, answer = promtool("check", "rules", str(RULES))
    assert code == 0, answer
    assert f"{len(ALERTS)} rules found" in answer


@needs_promtool
@pytest.mark.slow
def test_each_alert_fires_in_its_state_and_no_other_does(tmp_path: Path):
    broken = [({**HEALTHY, **BROKEN[alert]}, [alert]) for alert in ALERTS]
    no_files = {f"windlass_disk_free_files{{{SERVER}}}": "4+0x200"}
    broken.append(({**HEALTHY, **no_files}, ["WindlassDiskFull"]))
    read_only = {f"windlass_database_writable{{{SERVER}}}": OFF}
    broken.append(({**HEALTHY, **read_only}, ["WindlassDatabaseDown"]))
    code, answer = states(*broken, folder=tmp_path)
    assert code == 0, answer


@needs_promtool
def test_no_alert_fires_for_a_healthy_installation(tmp_path: Path):
    code, answer = states((HEALTHY, []), folder=tmp_path)
    assert code == 0, answer
    code, _ = states((HEALTHY, ["WindlassDown"]), folder=tmp_path)
    assert code != 0, "the control must be refused"


def test_the_monitoring_page_explains_each_alert():
    assert re.findall(r"^### (Windlass\w+)$", PAGE, re.M) == ALERTS


async def test_alerts_and_dashboard_query_only_existing_metrics(world: World):
    text = await scraped(world)
    known = {f"windlass_{metric.name}" for metric in metrics_of([])} | {"windlass_gateway_up"}
    known |= {"windlass_database_connections"}  # exists with PostgreSQL only
    known |= set(re.findall(r"^# TYPE (\w+)", text, re.M))
    read = names_in(RULES.read_text()) | names_in(DASHBOARD.read_text())
    assert len(read) > 20
    assert {name for name in read if re.sub("_(bucket|sum|count)$", "", name) not in known} == set()
    assert names_in("sum(rate(windlass_no_such_total[5m]))") - known


def names_in(text: str) -> set[str]:
    return set(re.findall(r"\bwindlass_\w+", text))


ADDED = frozenset({"instance", "job", "alertname", "le"})
"""Labels that Prometheus adds, and that of buckets."""


async def labels_there_are(world: World) -> dict[str, frozenset[str]]:
    """Returns the labels of each metric."""
    known = {f"windlass_{metric.name}": frozenset(metric.labels) for metric in metrics_of([])}
    known |= {"windlass_gateway_up": frozenset(), "windlass_database_connections": frozenset({"state"})}
    known[ENDS] = frozenset({"place"})  # there are no clusters
    known[DOMAIN_ENDS] = frozenset({"origin"})  # there are no domains
    for family in text_string_to_metric_families(await scraped(world)):
        for sample in family.samples:
            known[sample.name] = frozenset(sample.labels) - ADDED
    return known


def unknown_labels(expression: str, known: Mapping[str, frozenset[str]]) -> set[str]:
    """Returns labels that no metric of a query has."""
    there = set().union(*(known.get(name, ()) for name in names_in(expression)))
    read = re.findall(r'(\w+)(?:=~|!~|!=|=)"', expression)
    for group in re.findall(r"(?:by|without|on|ignoring) \(([^)]*)\)", expression):
        read += group.replace(",", " ").split()
    return set(read) - there - ADDED


def queries() -> list[str]:
    """Returns the queries of all alerts and of the dashboard."""
    panels = json.loads(DASHBOARD.read_text())["panels"]
    rules = re.findall(r"expr: >-\n\s+(.*)", RULES.read_text())
    assert len(rules) == len(ALERTS)
    return [*rules, *(target["expr"] for panel in panels for target in panel["targets"])]


async def test_alert_and_dashboard_queries_use_only_labels_of_their_metrics(world: World):
    await deployed(world)
    known = await labels_there_are(world)
    assert {query: unknown_labels(query, known) for query in queries() if unknown_labels(query, known)} == {}
    assert unknown_labels('sum by (customer) (windlass_services{state="x"})', known) == {"customer"}


async def test_the_series_of_the_alert_tests_have_the_labels_of_a_real_scrape(world: World):
    await deployed(world)
    known = await labels_there_are(world)
    series = {**HEALTHY, **{name: value for broken in BROKEN.values() for name, value in broken.items()}}
    for name in series:
        metric, _, labels = name.removesuffix("}").partition("{")
        given = frozenset(re.findall(r'(\w+)="', labels)) - ADDED
        assert metric == "up" or given == known[metric], name


@needs_promtool
def test_promtool_accepts_every_query_of_the_dashboard(tmp_path: Path):
    rules = [{"record": f"panel:{number}", "expr": query} for number, query in enumerate(queries())]
    file = tmp_path / "rules.yml"
    file.write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}))
    code, answer = promtool("check", "rules", str(file))
    assert code == 0, answer
    file.write_text(file.read_text().replace("sum by", "sum buy"))
    assert promtool("check", "rules", str(file))[0] != 0


def test_each_dashboard_panel_has_a_query_and_its_own_position():
    panels = json.loads(DASHBOARD.read_text())["panels"]
    assert all(target["expr"] for panel in panels for target in panel["targets"])
    places = {(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}
    assert len(places) == len(panels) > 15
