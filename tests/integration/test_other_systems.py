"""A broker where the system lacks what Linux has, as macOS does."""

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import os, sys

for name in ("copy_file_range", "fdatasync", "memfd_create", "posix_fallocate", "sched_getaffinity"):
    if hasattr(os, name):
        delattr(os, name)

from moldau.testing import Broker

with Broker(data_dir=sys.argv[1]) as broker:
    broker.create_topic("orders", configs={"flush.messages": "1"})
    broker.produce("orders", "a lamp")
    broker.stop()
    broker.start()
    assert [record.value for record in broker.records("orders")] == [b"a lamp"]
print("kept")
"""


def test_a_broker_keeps_its_records(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)], capture_output=True, text=True, timeout=60
    )
    assert (done.stdout, done.returncode) == ("kept\n", 0), done.stderr
