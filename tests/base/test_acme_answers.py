"""What an authority answers is cut, and is never deeper than it can be read."""

from __future__ import annotations

import pytest

from windlass.base.acme import AcmeClient, AcmeRefusal, AcmeUnavailable
from windlass.base.acme.documents import AcmeProblem
from windlass.base.acme.signing import new_private_key
from windlass.base.http_out import HttpResult


class Authority:
    def __init__(self, status: int, body: bytes) -> None:
        self._answer = HttpResult(status, {}, body, cut=False, milliseconds=0)

    async def send(self, *_, **__) -> HttpResult:
        return self._answer


def client(status: int, body: bytes) -> AcmeClient:
    return AcmeClient(Authority(status, body), "https://ca.example/directory", new_private_key())


async def test_a_long_refusal_is_cut():
    with pytest.raises(AcmeRefusal) as refusal:
        await client(403, b'{"detail": "%b"}' % (b"no " * 20_000)).directory()
    assert str(refusal.value).startswith("no no")
    assert len(str(refusal.value)) == 1000
    assert AcmeProblem(detail="no").message == "no"


@pytest.mark.parametrize("status", [200, 403])
async def test_a_refusal_with_endless_parts_is_no_answer(status):
    body = b'{"subproblems": [' * 3000 + b"{}" + b"]}" * 3000
    with pytest.raises(AcmeUnavailable):
        await client(status, body).directory()
