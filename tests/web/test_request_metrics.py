"""What a service tells of its own requests, scraped from a real one."""

import pytest

from moldau.metrics.readings import Sources
from moldau.web.request_metrics import RequestCounts


@pytest.mark.slow
def test_requests_are_counted_by_route_and_status(run_service):
    with run_service() as serving, serving.client() as http:
        for name in ("ann", "bob", "nobody"):
            http.get(f"/people/{name}")
        http.get("/no/such/path")
        scraped = http.get("/metrics", headers={"accept": "text/plain"})
        assert scraped.headers["content-type"].startswith("text/plain; version=0.0.4")
        labels = 'service="Test",route="/people/{name}",method="GET"'
        assert f'moldau_web_requests_requests_total{{{labels},status="200"}} 2\n' in scraped.text
        assert f'moldau_web_requests_requests_total{{{labels},status="404"}} 1\n' in scraped.text
        assert 'route="none",method="GET",status="404"} 1\n' in scraped.text
        assert f"moldau_web_requests_timems_count_total{{{labels}}} 3\n" in scraped.text
        openmetrics = http.get("/metrics", headers={"accept": "application/openmetrics-text; version=1.0.0"})
        assert openmetrics.text.endswith("# EOF\n")


def test_a_method_that_a_client_made_up_is_no_label():
    counts = RequestCounts("Test", lambda: 0)
    for method in ("BREW-COFFEE", "BREW", "QZAB", "ž"):
        counts.answered("none", method, 405, 0.1, 1.0)
    sources = Sources()
    counts.register(sources)
    (requests, _, in_flight) = sources
    assert list(requests.values) == [(("Test", "none", "other", "405"), 4)]
    assert list(in_flight.values) == [(("Test",), 0)]
