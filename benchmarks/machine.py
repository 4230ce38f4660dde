"""The machine that figures were measured on, in words for a document."""

from __future__ import annotations

import os
import platform
from pathlib import Path


def machine() -> dict[str, str]:
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in line
        ),
        platform.processor(),
    )
    memory_kb = int(Path("/proc/meminfo").read_text().split()[1])
    return {
        "processor": f"{os.cpu_count()} × {model}",
        "memory": f"{memory_kb / 1e6:.0f} GB",
        "system": f"{platform.system()} {platform.release()}",
        "Python": platform.python_version(),
        "Java": _java_version(),
    }


def _java_version() -> str:
    return os.popen("java -version 2>&1").readline().strip()
