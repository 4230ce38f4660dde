"""Operations at full size, only with MOLDAU_TEST_OPERATIONS=1 (`make test-operations`)."""

import os

if os.environ.get("MOLDAU_TEST_OPERATIONS") != "1":
    collect_ignore_glob = ["*.py"]
