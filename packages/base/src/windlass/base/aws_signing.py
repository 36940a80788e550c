"""Signs requests to AWS (Signature Version 4).

The key of a signature is derived from the secret key for a day, a region and a service. The secret key itself
is never sent.
"""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

from msgspec import Struct

_ALGORITHM: Final = "AWS4-HMAC-SHA256"


class AccessKeys(Struct, frozen=True):
    id: str
    secret: str
    region: str

    def __repr__(self) -> str:
        return f"AccessKeys({self.id!r}, …)"


def sign(
    keys: AccessKeys,
    service: str,
    method: str,
    host: str,
    body: bytes,
    headers: Mapping[str, str],
    now: time.struct_time,
    *,
    path: str = "/",
    query: Mapping[str, str] = {},
) -> dict[str, str]:
    """Returns the headers of a request, with a signature of its address, its headers, the time and the body.
    `path` is encoded as it is sent."""
    moment, day = time.strftime("%Y%m%dT%H%M%SZ", now), time.strftime("%Y%m%d", now)
    whole = {"host": host, "x-amz-date": moment} | {name.lower(): value for name, value in headers.items()}
    names = ";".join(sorted(whole))
    canonical = "\n".join(
        [
            method,
            path,
            encode_query(query),
            *(f"{name}:{whole[name]}" for name in sorted(whole)),
            "",
            names,
            hashlib.sha256(body).hexdigest(),
        ]
    )
    scope = f"{day}/{keys.region}/{service}/aws4_request"
    text = "\n".join([_ALGORITHM, moment, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = f"AWS4{keys.secret}".encode()
    for part in (day, keys.region, service, "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.digest(key, text.encode(), "sha256").hex()
    authorization = f"{_ALGORITHM} Credential={keys.id}/{scope}, SignedHeaders={names}, Signature={signature}"
    return {**headers, "X-Amz-Date": moment, "Authorization": authorization}


def encode_query(query: Mapping[str, str]) -> str:
    """Returns a query in the form that is signed, which is also the form to send."""
    pairs = sorted((quote(name, safe="-_.~"), quote(value, safe="-_.~")) for name, value in query.items())
    return "&".join(f"{name}={value}" for name, value in pairs)
