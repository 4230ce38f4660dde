"""Soak tests: MOLDAU_SOAK_SECONDS (`make soak`), MOLDAU_SOAK_HOSTILE_SECONDS (`make soak-hostile`)."""

import os

if not os.environ.keys() & {"MOLDAU_SOAK_SECONDS", "MOLDAU_SOAK_HOSTILE_SECONDS"}:
    collect_ignore_glob = ["*.py"]
