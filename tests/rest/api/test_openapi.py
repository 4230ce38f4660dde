"""Requests made up from the OpenAPI document: whatever comes, the answer is one that it tells of."""

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import content_type_conformance, response_schema_conformance

from moldau.rest.api.app import SERVICE
from moldau.web.openapi import document

#: Made-up requests for each operation; the whole file takes a few seconds.
_BUDGET = 3
_CHECKS = [not_a_server_error, content_type_conformance, response_schema_conformance]
_DOCUMENT = document(SERVICE.description, SERVICE.table)
_API = schemathesis.openapi.from_dict(_DOCUMENT)
OPERATIONS = [found.ok() for found in _API.get_all_operations()]


@pytest.mark.slow
def test_no_request_is_too_much(broker, start):
    """One proxy for all of them: what one request leaves behind is what the next one meets."""
    broker.create_topic("t", 1)
    with start() as proxy:
        cluster = proxy.http.get("/v3/clusters").json()["data"][0]["cluster_id"]
        proxy.http.post("/consumers/g", json={"name": "c"})
        known = {"cluster": cluster, "topic": "t", "group": "g", "instance": "c"}
        for operation in OPERATIONS:

            @settings(
                max_examples=_BUDGET,
                phases=[Phase.generate],
                derandomize=True,
                database=None,
                deadline=None,
                suppress_health_check=list(HealthCheck),
            )
            @given(case=operation.as_strategy())
            def ask(case):
                # What the path names exists, or hardly any request would come further than 404.
                case.path_parameters = {
                    name: known.get(name, value) for name, value in (case.path_parameters or {}).items()
                }
                # Nobody waits a minute for records that nobody writes, or for ever.
                unwanted = ("follow", "timeout")
                case.query = {
                    name: value for name, value in (case.query or {}).items() if name not in unwanted
                }
                if isinstance(case.body, dict) and isinstance(case.body.get("partitions_count"), int):
                    case.body["partitions_count"] %= 4  # a million partitions are the broker's matter
                response = case.call(base_url=proxy.url)
                case.validate_response(response, checks=_CHECKS)

            ask()
        assert proxy.http.get("/topics").status_code == 200


def test_the_document_has_operations():
    assert len(OPERATIONS) > 60
