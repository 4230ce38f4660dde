"""Runs the tests in several processes at once, each of which sees its share of the files and no others.

    python tools/run_in_parts.py 3 -m "not slow"      # three parts; the rest is whatever pytest takes

Quick tests by the thousand take longer to report from one process to another, as pytest-xdist does it, than
to run, and there every process collects all of them. Those that take long are better off with xdist: it gives
the next file to whoever is free. Three parts on two cores: while one waits for a broker, another works.
"""

import re
import subprocess
import sys
import threading
import time
from typing import IO

#: Lines of nothing but results: they are shown as they come.
RESULTS = re.compile(r"[.sxXFE]+ *(\[ *\d+%\])?\s*")


class Part(threading.Thread):
    """One pytest; what it says beside its progress is kept until it is over."""

    def __init__(self, number: int, parts: int, arguments: list[str]) -> None:
        super().__init__()
        self._name = f"{number}/{parts}"
        command = [sys.executable, "-m", "pytest", "-p", "no:xdist", f"--part={self._name}", *arguments]
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        )
        self._said: list[str] = []
        self.code = 0

    def run(self) -> None:
        assert self._process.stdout is not None
        self._read(self._process.stdout)
        self.code = self._process.wait()

    def _read(self, output: IO[str]) -> None:
        for line in output:
            if RESULTS.fullmatch(line):
                print(f"{self._name} {line}", end="", flush=True)
            else:
                self._said.append(line)

    def tell(self) -> None:
        """All that it said if something failed, else how many passed."""
        said = self._said if self.code else self._said[-1:]
        print(f"part {self._name}: " + "".join(said).strip(), flush=True)


def main(arguments: list[str]) -> int:
    if not arguments or not arguments[0].isdigit() or int(arguments[0]) < 1:
        print("how many parts? python tools/run_in_parts.py 3 -m 'not slow'", file=sys.stderr)
        return 2
    parts, began = int(arguments[0]), time.monotonic()
    running = [Part(number, parts, arguments[1:]) for number in range(1, parts + 1)]
    for part in running:
        part.start()
    for part in running:
        part.join()
    for part in running:
        part.tell()
    print(f"{time.monotonic() - began:.0f} s")
    return max(part.code for part in running)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
