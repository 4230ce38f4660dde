import pytest

from moldau.web.routes import Matched, Route, RouteTable


async def handler(call):
    return None


TABLE = RouteTable(
    [
        Route("GET", "/", handler, "Root"),
        Route("GET", "/topics/{topic}/partitions/{id:integer}", handler, "A partition"),
        Route("PUT", "/topics/{topic}", handler, "Write"),
        Route("DELETE", "/topics/{topic}", handler, "Delete"),
        Route("GET", "/clusters", handler, "Clusters"),
        Route("GET", "/topics/{topic}/configs", handler, "Configs"),
        Route("POST", "/topics/{topic}/{other}", handler, "Another"),
        Route("GET", "/topics/{topic}/records", handler, "Records"),
    ],
    prefix="/clusters/{cluster}",
)


@pytest.mark.parametrize(
    ("path", "parameters"),
    [
        ("/", {}),
        ("/topics/a%2Fb/partitions/7?x=1", {"topic": "a/b", "id": "7"}),
        ("/clusters", {}),
        ("/topics/t/records", {"topic": "t"}),
        ("/topics/t/%72ecords", {"topic": "t"}),
        ("/clusters/eu/topics/t/partitions/x/", {"cluster": "eu", "topic": "t", "id": "x"}),
    ],
)
def test_a_path_is_matched_as_it_was_sent(path, parameters):
    found = TABLE.match("GET", path)
    assert isinstance(found, Matched)
    assert found.parameters == parameters


def test_what_is_not_in_the_table():
    assert TABLE.match("GET", "/nowhere") == []
    assert TABLE.match("GET", "/clusters/eu") == []
    assert TABLE.match("GET", "/topics/t") == ["PUT", "DELETE"]
    assert TABLE.match("PUT", "/topics/t/records") == ["POST", "GET"]
    assert TABLE.match("GET", "/topics/t/others") == ["POST"]


def test_openapi_writes_paths_without_types():
    assert TABLE.routes[1].plain_path == "/topics/{topic}/partitions/{id}"
    assert TABLE.routes[0].plain_path == "/"
