"""The Python of Spark's workers: this one, without the packed copy of PySpark that Spark puts first.

Spark starts many Python processes, and gives each of them ``pyspark.zip``. Modules in it are compiled anew by
every process, a second of work; the same modules are installed beside the zip, compiled already. A small
script takes the zips out of the path and becomes the interpreter.

Law: only for workers on this machine, and only for a Spark that pip has installed. Whoever sets
PYSPARK_PYTHON gets that, and nothing is said about it.
"""

import os
import sys

from moldau.spark.scripts import kept_script

_WITHOUT_ZIPS = """#!/bin/sh
set -f
kept=
IFS=:
for each in $PYTHONPATH; do
  case "$each" in
    */pyspark/python/lib/*.zip) ;;
    *) kept="${kept:+$kept:}$each" ;;
  esac
done
unset IFS
PYTHONPATH="$kept"
export PYTHONPATH
exec "%s" "$@"
"""


def worker_python(master: str) -> str:
    """What PYSPARK_PYTHON is to be for a session on this master."""
    if not master.startswith("local") or os.name != "posix":
        return sys.executable
    home = kept_script("python", "python", _WITHOUT_ZIPS % sys.executable)
    return sys.executable if home is None else str(home / "python")
