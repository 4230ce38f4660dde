"""Runs the tests; a few that failed are run once more, alone, and named.

    python tools/run_tests.py -n 2 --dist loadfile      # whatever pytest takes

A test that fails only beside others is a bug of that test, or a race in the code: the last lines name it,
so that somebody mends it. It does not take the verdict about everything else with it. More than a handful of
failures, an error while tests are collected, or an interruption is final at once.
"""

import json
import subprocess
import sys
from pathlib import Path

MOST_TO_REPEAT = 5
LAST_FAILED = Path(".pytest_cache/v/cache/lastfailed")


def main(arguments: list[str]) -> int:
    LAST_FAILED.unlink(missing_ok=True)
    pytest = [sys.executable, "-m", "pytest"]
    code = subprocess.run([*pytest, *arguments]).returncode
    if code != 1 or not LAST_FAILED.exists():
        return code
    failed = [name for name in json.loads(LAST_FAILED.read_text()) if "::" in name]
    if not 0 < len(failed) <= MOST_TO_REPEAT:
        return code
    print(f"\nonce more, alone: {len(failed)} of the tests above", flush=True)
    code = subprocess.run([*pytest, "-v", "--last-failed"]).returncode
    if code == 0:
        print("\npassed alone and failed beside others, which is to be mended:")
        print("\n".join(f"  {name}" for name in failed))
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
