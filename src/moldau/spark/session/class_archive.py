"""Spark's classes as an archive that Java maps into memory: a session starts in two thirds of the time.

Most of a session's start is Java reading, checking and linking some fifteen thousand classes. Java can
write them down once (class data sharing) and map them afterwards. ``python -m
moldau.spark.session.warm_up`` does that: a small job in a process of its own, run by that Java with that
Spark; every later session of this user finds the archive.

Invariant: without an archive, or with one that does not fit, Java starts as usual. Other processes see an
archive only when it is complete.
"""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

from moldau.spark.session.scripts import cache_directories

#: Otherwise Java logs every class that it leaves out, and every archive that it cannot use.
_QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:class+path=off"
_TRAINING_SECONDS = 300
_ARCHIVES = "spark-classes-*.jsa"
_KEPT_ARCHIVES = 4


def java_options(java_home: Path) -> str:
    """What to start Java with; nothing where no archive was made for it."""
    name = _name(java_home)
    for directory in cache_directories():
        if (archive := directory / name).is_file():
            return f"-XX:SharedArchiveFile={archive} {_QUIET}"
    return ""


def make_archive(java_home: Path) -> Path | None:
    """Makes the archive unless it is there; None where it cannot be made."""
    name = _name(java_home)
    for directory in cache_directories():
        archive = directory / name
        if archive.is_file():
            return archive
        draft = directory / f"{name}.{os.getpid()}"
        try:
            directory.mkdir(parents=True, exist_ok=True)
            if _trained(java_home, draft):
                draft.replace(archive)
                _remove_old(directory)
                return archive
            return None
        except OSError:
            continue  # not writable: try the next directory
        finally:
            draft.unlink(missing_ok=True)
    return None


def _trained(java_home: Path, draft: Path) -> bool:
    """Whether a job has run and Java has written down what it loaded."""
    job = [
        sys.executable,
        "-m",
        "moldau.spark.session.cds_training",
        f"-XX:ArchiveClassesAtExit={draft} {_QUIET}",
    ]
    environment = {**os.environ, "JAVA_HOME": str(java_home)}
    try:
        done = subprocess.run(
            job,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_TRAINING_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0 and draft.is_file()


def _remove_old(directory: Path) -> None:
    """Archives are large, and those of environments that are gone would stay for ever."""
    archives = sorted(directory.glob(_ARCHIVES), key=lambda file: file.stat().st_mtime, reverse=True)
    for archive in archives[_KEPT_ARCHIVES:]:
        archive.unlink(missing_ok=True)


def _name(java_home: Path) -> str:
    """Differs for another Java, another Spark, and for the same ones installed again."""
    import pyspark

    jars = Path(pyspark.__file__).parent / "jars"
    about = [str(java_home), str(jars), pyspark.__version__]
    for file in (java_home / "release", java_home / "bin" / "java", jars):
        try:
            about.append(str(file.stat().st_mtime_ns))
        except OSError:
            about.append("")
    return _ARCHIVES.replace("*", hashlib.sha256(" ".join(about).encode()).hexdigest()[:12])
