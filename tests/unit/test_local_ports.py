"""Ports that are given once, whichever process asks."""

from __future__ import annotations

import subprocess
import sys

ASK = """
import sys
from zerofleet.local.ports import free_port
print(*(free_port() for _ in range(300)), flush=True)
sys.stdin.read()  # they are this process's until it ends
"""


def test_no_two_processes_are_given_one_port() -> None:
    askers = [
        subprocess.Popen(
            [sys.executable, "-c", ASK], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(3)
    ]
    given: list[str] = []
    for asker in askers:
        assert asker.stdout is not None
        given += asker.stdout.readline().split()
    for asker in askers:
        asker.communicate()
        assert asker.returncode == 0
    assert len(given) == len(set(given)) == 900
