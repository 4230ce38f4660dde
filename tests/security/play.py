"""``python -m tests.security.play FILE …`` plays rows of an authorization table: see ``row_player.py``."""

import sys

from tests.security.row_player import main

if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
