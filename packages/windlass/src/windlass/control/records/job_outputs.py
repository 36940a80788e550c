"""The outputs of jobs as records: read from the file that a run has written, stored, and read again.

The file is an object of JSON: `{"BUCKET": {"value": "shop-7f3a", "sensitive": false, "description": "…"}}`.
The kind of jobs makes variables of them, each with the name of the job in its key: who may deploy one job
decides nothing about the names that other services read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from windlass.control.context.call import encode
from windlass.control.context.context import Context
from windlass.core.declare.fields import Key, Note, Text
from windlass.core.deploy.injected_variables import output_word
from windlass.core.words.masking import Mask
from windlass.store import Reads, Tx
from windlass.store.tables.job_outputs import JobOutputRow
from windlass.store.tables.sealed import OUTPUTS

MOST: Final = 200
"""Maximum number of outputs of one job."""
MOST_OF_ALL: Final = 128 * 1024
"""Bytes of the outputs of one job: with too many of them, no service could be started."""


class BadOutput(Exception):
    """The output file of a run cannot be used; the message is for the person whose job it is."""


class OutputValue(Struct, forbid_unknown_fields=True):
    """An output in the file of a run."""

    value: Text | int | float | bool
    sensitive: bool = False
    description: Note = ""

    @property
    def text(self) -> str:
        return self.value if isinstance(self.value, str) else encode(self.value).decode()


class JobOutput(Struct, frozen=True):
    value: str
    is_sensitive: bool = False
    description: str = ""


JobOutputs = Mapping[str, JobOutput]
"""Keyed by the end of the key of their variable."""
_decode_file = msgspec.json.Decoder(dict[Key, OutputValue]).decode
_decode = msgspec.json.Decoder(dict[str, JobOutput]).decode


def parse_outputs(content: bytes | None) -> JobOutputs | None:
    """Returns the outputs in the file of a run; None if it wrote none. Raises BadOutput."""
    if not content or not content.strip():
        return None
    try:
        file = _decode_file(content)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadOutput(
            'Write an object such as {"BUCKET": {"value": "shop", "sensitive": false}} to the output file: '
            f"{error}"
        ) from error
    outputs: dict[str, JobOutput] = {}
    for name, output in file.items():
        if "\0" in output.text:
            raise BadOutput(f"Write no NUL to the output file: no process takes it in the variable {name}")
        if (word := output_word(name)) in outputs:
            raise BadOutput(
                f"Write {name} once to the output file: another name in it has the variable …_{word}"
            )
        outputs[word] = JobOutput(output.text, output.sensitive, output.description)
    size = sum(len(output.value.encode()) for output in outputs.values())
    if len(outputs) > MOST or size > MOST_OF_ALL:
        raise BadOutput(
            f"Write less to the output file: a job has at most {MOST} outputs, with {MOST_OF_ALL} bytes"
        )
    return outputs


def with_secrets_marked(outputs: JobOutputs, mask: Mask) -> JobOutputs:
    """Returns the outputs; those that contain a secret of the run are marked as sensitive."""
    return {
        word: replace(output, is_sensitive=output.is_sensitive or mask.text(output.value) != output.value)
        for word, output in outputs.items()
    }


async def store_outputs(ctx: Context, tx: Tx, org: str, job: str, outputs: JobOutputs) -> None:
    """Replaces the outputs of a job."""
    sealed = ctx.encryption.encrypt(encode(outputs), *OUTPUTS.owner(org=org, job=job))
    await tx.job_outputs.set(JobOutputRow(job, org, sealed))


async def outputs_of(ctx: Context, source: Reads, job: str) -> JobOutputs:
    row = await source.job_outputs.get(job)
    if row is None:
        return {}
    return _decode(ctx.encryption.decrypt(row.sealed, *OUTPUTS.owner(org=row.org, job=row.job)))
