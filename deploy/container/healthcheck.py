"""The health check of the image: exit code 0 while the address in MOLDAU_HEALTH_URL answers with 200.

It is a broker's /readyz unless that is set; a registry has /subjects. Nothing but Python's own library is
used, so that a check costs little.
"""

import os
import sys
import urllib.request

URL = os.environ.get("MOLDAU_HEALTH_URL", "http://127.0.0.1:9404/readyz")


def main() -> int:
    try:
        with urllib.request.urlopen(URL, timeout=4) as answer:
            return 0 if answer.status == 200 else 1
    except OSError as error:
        print(f"{URL}: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
