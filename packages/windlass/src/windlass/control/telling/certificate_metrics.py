"""Tells when the certificates end by which this server reaches the engines of clusters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import datetime
from functools import lru_cache

from cryptography import x509

from windlass.base.metrics import Metric, MetricType, Sample
from windlass.control.context.place import EngineAccess


def certificate_metrics(accesses: Iterable[EngineAccess]) -> Iterator[Metric]:
    samples: list[Sample] = []
    for access in accesses:
        pems = [pem for pem in (access.ca_certificate, access.certificate) if pem]
        with suppress(ValueError):  # `windlass doctor` tells of those that cannot be read
            if pems:
                samples.append(((access.cluster,), min(map(end_of, pems)).timestamp()))
    yield Metric(
        "cluster_certificate_end_timestamp_seconds",
        "Time when the first certificate ends that was given for the engine of the cluster",
        MetricType.GAUGE,
        ("place",),
        samples,
    )


@lru_cache(256)
def end_of(pem: str) -> datetime:
    """Returns the end of the first of these certificates that ends."""
    return min(
        certificate.not_valid_after_utc for certificate in x509.load_pem_x509_certificates(pem.encode())
    )
