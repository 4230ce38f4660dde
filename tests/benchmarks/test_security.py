"""The page of what security costs, from figures that are given."""

from benchmarks.security import page


def test_the_page_says_what_was_wanted_and_what_was_met() -> None:
    names = ("produce MB/s, TLS", "consume MB/s, TLS", "produce CPU s/GB, TLS", "handshakes/s, TLS 1.3")
    figures = {
        "kafka": dict(zip(names, (100.0, 200.0, 10.0, 500.0), strict=True)),
        "moldau": dict(zip(names, (95.0, 100.0, 6.0, 400.0), strict=True)),
        "costs": {"ACL question asked before, with 10,000 ACLs (ns)": 200.0, "memory for both (MB)": 9.0},
    }
    text = page(figures, "Measured never")
    assert "Measured never." in text
    assert "| produce MB/s, TLS | 100.00 | 95.00 | 0.95× | ≥ 0.9 | met |" in text
    assert "| consume MB/s, TLS | 200.00 | 100.00 | 0.50× | ≥ 0.9 | missed |" in text
    assert "| produce CPU s/GB, TLS | 10.00 | 6.00 | 0.60× | ≤ 0.7 | met |" in text
    assert "| handshakes/s, TLS 1.3 | 500.00 | 400.00 | 0.80× |  |  |" in text
    assert "| ACL question asked before, with 10,000 ACLs (ns) | 200.0 | ≤ 1,000 | met |" in text
