"""The classes in ``jvm`` as a jar: compiled once on this machine, by the compiler that comes with Spark.

With the jar, ``format("moldau")`` is read by column and through shared memory (``shared_batches``), in half
to two thirds of the time; without it the same source is read as Spark reads any Python source. So it is
compiled where it is missing, in some seconds, when the first session starts or by ``python -m
moldau.spark.session.warm_up``.

Invariant: a session never fails because of the jar. With another Spark than the one it was written for, on
another system than Linux, or after a compiler error, sessions start without it; an error is remembered, so
that the next session does not try again. ``MOLDAU_SPARK_COLUMNAR=off`` switches it off.
"""

import os
import subprocess
import sys
import zipfile
from hashlib import sha256
from pathlib import Path

from moldau.spark.session.scripts import cache_directories

_HOME = Path(__file__).parent
#: Each file needs only those before it.
_SOURCES = tuple(
    _HOME / f"{name}.java"
    for name in ("Worker", "RowSegment", "RowNotes", "SharedWrite", "PlacedVector", "ColumnarSource")
)
_CLASS = "moldau.spark.ColumnarSource"
_SERVICE = "META-INF/services/org.apache.spark.sql.sources.DataSourceRegister"
#: The version of Spark whose internals the class uses.
_SPARK = "4.3."
_COMPILING_SECONDS = 120


def columnar_jar(java_home: Path) -> Path | None:
    """The jar, compiled if it is not there yet; None where there can be none."""
    import pyspark

    wanted = os.environ.get("MOLDAU_SPARK_COLUMNAR", "").lower() not in ("off", "0", "false")
    if not (wanted and sys.platform == "linux" and pyspark.__version__.startswith(_SPARK)):
        return None
    texts = b"".join(source.read_bytes() for source in _SOURCES)
    about = sha256(texts + pyspark.__version__.encode()).hexdigest()[:12]
    for directory in cache_directories():
        jar = directory / f"columnar-{about}.jar"
        draft = jar.with_name(f"{jar.name}.{os.getpid()}")
        try:
            if not jar.is_file():
                directory.mkdir(parents=True, exist_ok=True)
                if not _compiled(java_home, draft):
                    draft.write_bytes(b"")  # compiling failed: an empty jar says so to later sessions
                draft.replace(jar)
            return jar if jar.stat().st_size else None
        except OSError:
            continue  # not writable: try the next directory
        finally:
            draft.unlink(missing_ok=True)
    return None


def _compiled(java_home: Path, draft: Path) -> bool:
    """Compiles in another process, as this program may still start the one JVM that PySpark can have."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", "moldau.spark.jvm.columnar_jar", str(draft)],
            env={**os.environ, "JAVA_HOME": str(java_home)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_COMPILING_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0 and draft.is_file()


def compile_into(jar: Path) -> None:
    """By Janino, in a JVM with Spark's classes."""
    from pyspark.java_gateway import launch_gateway

    gateway = launch_gateway()  # type: ignore[no-untyped-call]
    java = gateway.jvm
    known = None
    with zipfile.ZipFile(jar, "w", zipfile.ZIP_DEFLATED) as archive:
        for source in _SOURCES:
            compiler = java.org.codehaus.janino.SimpleCompiler()
            compiler.setDebuggingInformation(True, True, False)
            compiler.setSourceVersion(8)
            compiler.setTargetVersion(8)
            if known is not None:
                compiler.setParentClassLoader(known)
            compiler.cook(source.name, java.java.io.StringReader(source.read_text("utf-8")))
            classes = compiler.getBytecodes()
            for name in classes:
                archive.writestr(f"{name.replace('.', '/')}.class", bytes(classes[name]))
            known = compiler.getClassLoader()
        archive.writestr(_SERVICE, f"{_CLASS}\n")
    gateway.shutdown()


if __name__ == "__main__":
    compile_into(Path(sys.argv[1]))
