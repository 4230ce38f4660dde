"""The Python of Spark's workers: this one, without the packed copy of PySpark that Spark puts first.

Spark starts many Python processes, and gives each of them ``pyspark.zip``. Every process compiles the modules
in it again, which takes a second; the same modules are installed beside the zip, compiled already. A small
script takes the zips out of the path and becomes the interpreter. The source of a stream has a process of its
own for each query, which is forked from a process that is ready (``prefork_server``).

Invariant: only for workers on this machine, and only for a Spark that pip has installed. A
PYSPARK_PYTHON that the user has set is used as it is.
"""

import os
import sys
import tempfile
from pathlib import Path

from moldau.spark.session.scripts import kept_script

_SCRIPT = """#!/bin/sh
set -f
kept=
IFS=:
for each in $PYTHONPATH; do
  case "$each" in
    */pyspark/python/lib/*.zip) ;;
    *) kept="${{kept:+$kept:}}$each" ;;
  esac
done
unset IFS
PYTHONPATH="$kept"
export PYTHONPATH
if [ "$*" = "-m pyspark.sql.streaming.python_streaming_source_runner" ]; then
  exec "{python}" -I -S "{client}" "{ready}" -m moldau.spark.session.prefork_server "{ready}"
fi
exec "{python}" "$@"
"""


def worker_python(master: str) -> str:
    """What PYSPARK_PYTHON is to be for a session on this master."""
    if not master.startswith("local") or os.name != "posix":
        return sys.executable
    ready = Path(tempfile.gettempdir()) / f"moldau-ready-{os.getuid()}"
    client = Path(__file__).with_name("prefork_client.py")
    script = _SCRIPT.format(python=sys.executable, client=client, ready=ready)
    home = kept_script("python", "python", script)
    return sys.executable if home is None else str(home / "python")
