"""``moldau cluster`` on a cluster that loses a broker."""

import json
from typing import Any

from moldau.testing import Cluster
from tests.shared.waiting import wait_until


def test_status_and_why(moldau: Any) -> None:
    with Cluster(2) as cluster:
        at = ("-b", cluster[1].bootstrap_servers)
        moldau("topics", "create", "t", "-p", "2", "-r", "2", *at)
        wait_until(lambda: all(len(each.isr) == 2 for each in cluster.image.topics_by_name["t"].partitions))
        status = json.loads(moldau("cluster", "status", "--json", *at).stdout)
        assert [(row["broker"], row["leads"], row["replicas"]) for row in status["brokers"]] == [
            (1, 1, 2),
            (2, 1, 2),
        ]
        assert (status["partitions"], status["offline"], status["under_replicated"]) == (2, 0, 0)
        assert "controller" in moldau("cluster", "status", *at).stdout
        assert "every partition has its leader" in moldau("cluster", "why", *at).stdout
        gone = 2 if cluster.controller_id == 1 else 1
        at = ("-b", cluster[3 - gone].bootstrap_servers)
        cluster.kill(gone)
        wait_until(lambda: not cluster.image.is_live(gone))
        shown = moldau("cluster", "why", *at, code=1).stdout
        assert f"broker {gone} is not there: 2 partition(s)" in shown
        assert f"next: start broker {gone}" in shown
        (reason, *_) = json.loads(moldau("cluster", "why", "--json", *at, code=1).stdout)
        assert reason["partitions"] == ["t-0", "t-1"]
