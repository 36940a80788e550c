"""The outputs of jobs: parsed from the output file of a run, stored encrypted, and read.

The file is a JSON object: `{"BUCKET": {"value": "shop-7f3a", "sensitive": false, "description": "…"}}`. The
job's kind derives variables from the outputs. Their names contain the name of the job, so that a person who
may deploy one job cannot override other variables.
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

MAX_OUTPUTS: Final = 200
"""The largest number of outputs of one job."""
MAX_OUTPUTS_BYTES: Final = 128 * 1024
"""The largest size in bytes of the outputs of one job. A process cannot be started with too large an
environment."""


MAX_OUTPUTS_BYTES_OF_ENVIRONMENT: Final = 1024 * 1024
"""The largest size in bytes of the stored outputs of all jobs of an environment. All services there get them
as variables, and no process gets more variables."""


class BadOutput(Exception):
    """The output file of a run cannot be used. The message is for the owner of the job."""


class OutputValue(Struct, forbid_unknown_fields=True):
    """An output in the output file of a run."""

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
"""Outputs by the suffix of their variable name."""
_decode_file = msgspec.json.Decoder(dict[Key, OutputValue]).decode
_decode = msgspec.json.Decoder(dict[str, JobOutput]).decode


def parse_outputs(content: bytes | None) -> JobOutputs | None:
    """Returns the outputs in the output file of a run; None if the run wrote none. Raises BadOutput."""
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
    if len(outputs) > MAX_OUTPUTS or size > MAX_OUTPUTS_BYTES:
        raise BadOutput(
            f"Write less to the output file: a job has at most {MAX_OUTPUTS} outputs, "
            f"with {MAX_OUTPUTS_BYTES} bytes"
        )
    return outputs


def with_secrets_marked(outputs: JobOutputs, mask: Mask) -> JobOutputs:
    """Returns the outputs, with all outputs marked as sensitive that contain a secret of the run."""
    return {
        word: replace(output, is_sensitive=output.is_sensitive or mask.text(output.value) != output.value)
        for word, output in outputs.items()
    }


async def store_outputs(
    ctx: Context, tx: Tx, org: str, environment: str, job: str, outputs: JobOutputs
) -> None:
    """Replaces the outputs of a job. Raises BadOutput if the jobs of its environment have too many."""
    sealed = ctx.encryption.encrypt(encode(outputs), *OUTPUTS.owner(org=org, job=job))
    most = MAX_OUTPUTS_BYTES_OF_ENVIRONMENT
    if await tx.job_outputs.size_beside(environment, job) + len(sealed) > most:
        raise BadOutput(
            "Delete jobs that are not needed, or write less to output files: the outputs of all jobs of an "
            f"environment have at most {most >> 10} KiB"
        )
    await tx.job_outputs.set(JobOutputRow(job, org, sealed))


async def outputs_of(ctx: Context, reads: Reads, job: str) -> JobOutputs:
    row = await reads.job_outputs.get(job)
    if row is None:
        return {}
    return _decode(ctx.encryption.decrypt(row.sealed, *OUTPUTS.owner(org=row.org, job=row.job)))
