"""Writes the zone of the node that a pod runs on to a file: it becomes broker.rack.

Pods do not know their zone by themselves; the label topology.kubernetes.io/zone of the node has it. A node
without that label leaves the file empty, and the broker without a rack.
"""

import json
import os
import ssl
import urllib.request
from pathlib import Path

ACCOUNT = Path(os.environ.get("ACCOUNT", "/var/run/secrets/kubernetes.io/serviceaccount"))
LABEL = "topology.kubernetes.io/zone"


def main() -> None:
    node = os.environ["NODE_NAME"]
    server = os.environ.get("API_SERVER", "https://kubernetes.default.svc")
    request = urllib.request.Request(f"{server}/api/v1/nodes/{node}")
    request.add_header("Authorization", f"Bearer {(ACCOUNT / 'token').read_text().strip()}")
    authority = ACCOUNT / "ca.crt"
    context = ssl.create_default_context(cafile=str(authority) if authority.exists() else None)
    with urllib.request.urlopen(request, timeout=30, context=context) as answer:
        labels = json.load(answer)["metadata"].get("labels", {})
    zone = labels.get(LABEL, "")
    Path(os.environ.get("ZONE_FILE", "/run/zone/zone")).write_text(zone)
    print(f"node {node} is in zone {zone or '(none)'}")


if __name__ == "__main__":
    main()
