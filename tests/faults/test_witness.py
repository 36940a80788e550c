"""The witness of the fault tests sees twins, and takes nothing else for one."""

import os
import subprocess
import sys

from tests.faults.witness import CALLS, MACHINE, Witness


def test_two_running_instances_of_one_name_are_duplicates_and_successive_ones_are_not():
    witness = Witness()
    first = _instance(witness, "web-1-0")
    _end(first)
    second, neighbour = _instance(witness, "web-1-0"), _instance(witness, "web-1-1")
    assert witness.twins == set()
    third = _instance(witness, "web-1-0")
    assert witness.twins == {"web-1-0"}
    for instance in (second, neighbour, third):
        _end(instance)
    witness.close()


def _instance(witness: Witness, name: str) -> subprocess.Popen[str]:
    program = CALLS.format(host=MACHINE, port=witness.port) + "print('here', flush=True)\ntime.sleep(1000)\n"
    instance = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", program],
        env={**os.environ, "WINDLASS_INSTANCE": name},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert instance.stdout
    assert instance.stdout.readline() == "here\n"
    return instance


def _end(instance: subprocess.Popen[str]) -> None:
    instance.kill()
    instance.wait()
    assert instance.stdout
    instance.stdout.close()
