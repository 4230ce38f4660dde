"""What handlers see: services as they are now, not as they were when the broker started."""

from types import SimpleNamespace

from moldau.broker.context import RequestContext
from moldau.testing import Broker


def test_image_and_configs_are_the_current_ones() -> None:
    with Broker() as broker:
        services = broker.node.services
        assert "orders" not in services.image.topics_by_name
        broker.create_topic("orders")
        assert "orders" in services.image.topics_by_name
        assert services.layers is services.settings.layers
        assert not services.stopping


def test_a_request_knows_the_listener_that_it_came_in_by() -> None:
    connection = SimpleNamespace(listener_name="INTERNAL")
    context = RequestContext(None, connection, 3, 12, 7, None)  # type: ignore[arg-type]
    assert context.listener == "INTERNAL"
    assert (context.api_key, context.api_version, context.correlation_id) == (3, 12, 7)
    assert context.client_id is None
