"""Requests made up from the OpenAPI document: whatever comes, the answer is one that it tells of."""

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import content_type_conformance, response_schema_conformance

from moldau.registry.api.app import SERVICE
from moldau.web.openapi import document

#: Made-up requests for each operation; the whole file takes a few seconds.
_BUDGET = 8
_CHECKS = [not_a_server_error, content_type_conformance, response_schema_conformance]
_API = schemathesis.openapi.from_dict(document(SERVICE.description, SERVICE.table))
OPERATIONS = [found.ok() for found in _API.get_all_operations()]


@pytest.fixture
def running(start):
    with start() as running:
        yield running


@pytest.mark.slow
def test_no_request_is_too_much(running):
    """One registry for all of them: what one request leaves behind is what the next one meets."""
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
            response = case.call(base_url=running.url)
            case.validate_response(response, checks=_CHECKS)

        ask()
    assert running.http.get("/subjects").status_code == 200


def test_the_document_has_operations():
    assert len(OPERATIONS) > 30
