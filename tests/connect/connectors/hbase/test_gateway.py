"""What a gateway is asked, and what its answers mean."""

from collections.abc import Iterator

import pytest

from moldau.connect.connectors.hbase.gateway import Gateway, Gone, Refused, takes_base64
from moldau.connect.connectors.hbase.rows import Column, Row
from moldau.connect.errors import ConnectException, DataException, RetriableException
from tests.connect.connectors.hbase.fake_gateway import FakeGateway

ROW = Row("t", b"k", 5, {Column("cf", "a"): b"v"})


@pytest.fixture
def fake() -> Iterator[FakeGateway]:
    found = FakeGateway()
    found.start()
    yield found
    found.stop()


@pytest.fixture
def gateway(fake: FakeGateway) -> Iterator[Gateway]:
    found = Gateway([f"http://127.0.0.1:{fake.port}"], None, None, 30)
    found.add_families("t", ["cf", "g"])
    yield found
    found.close()


def test_families_are_added_and_never_replaced(fake: FakeGateway, gateway: Gateway) -> None:
    gateway.add_families("t", ["h"])
    assert gateway.families("t") == {"cf": True, "g": True, "h": True}
    assert {method for method, path in fake.asked if path.endswith("/schema")} == {"POST", "GET"}
    assert gateway.families("nowhere") is None


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (400, b"Bad request\njava.lang.IllegalArgumentException: no\n\tat a.B(C.java:1)", Refused),
        (503, b"Unavailable\norg.apache.hadoop.hbase.DoNotRetryIOException: never", Refused),
        (503, b"Unavailable\njava.net.ConnectException", RetriableException),
        (500, b"", RetriableException),
        (429, b"", RetriableException),
        (404, b"Not found", Gone),
        (401, b"", ConnectException),
        (403, b"Forbidden", ConnectException),
    ],
)
def test_answers(
    fake: FakeGateway, gateway: Gateway, status: int, body: bytes, kind: type[ConnectException]
) -> None:
    fake.canned["PUT"] = (status, body)
    with pytest.raises(ConnectException, match=f"answers {status}") as caught:
        gateway.put("t", [ROW])
    assert type(caught.value) is kind
    assert "C.java" not in str(caught.value)


def test_a_table_that_cannot_be_made(fake: FakeGateway, gateway: Gateway) -> None:
    fake.canned["POST"] = (503, b"Unavailable\norg.apache.hadoop.hbase.NamespaceNotFoundException: shop")
    with pytest.raises(ConnectException, match=r"cannot be made so: .*NamespaceNotFoundException") as caught:
        gateway.add_families("shop:t", ["cf"])
    assert not isinstance(caught.value, DataException)  # it is about all records, not about one


def test_an_older_gateway_gets_keys_as_text(fake: FakeGateway, gateway: Gateway) -> None:
    fake.version = "2.5.6-hadoop3"
    for key in (b"\xff", b"all*", b"schema", b"..", b"a\n"):
        with pytest.raises(DataException, match="cannot delete a row with such a key"):
            gateway.delete_row(Row("t", key, 5, {}, deleted=True), ["cf"])
    gateway.delete_row(Row("t", "a/b, *ü".encode(), 5, {}, deleted=True), ["cf", "g"])
    asked = [path for method, path in fake.asked if method == "DELETE"]
    assert asked == ["/t/a%2Fb%2C%20%2A%C3%BC/cf,g/5"]
    assert (b"a/b, *\xc3\xbc", b"g", 5) in fake.tables["t"].deletes


def test_a_newer_gateway_gets_keys_in_base64(fake: FakeGateway, gateway: Gateway) -> None:
    gateway.delete_row(Row("t", b"\xff\xfe", 5, {}, deleted=True), ["cf"])
    assert fake.asked[-1] == ("DELETE", "/t/__4/Y2Y/5?e=b64")
    assert fake.tables["t"].deletes == [(b"\xff\xfe", b"cf", 5)]


@pytest.mark.parametrize(
    ("version", "wanted"),
    [
        ("2.5.10", False),
        ("2.6.0", False),
        ("2.6.1-hadoop3", True),
        ("2.10.0", True),
        ("3.0.0-alpha-4", False),
        ("3.0.0", True),
        ("", False),
    ],
)
def test_which_versions_take_base64(version: str, wanted: bool) -> None:
    assert takes_base64(version) is wanted


def test_the_next_gateway_is_asked_when_one_is_away(fake: FakeGateway, gateway: Gateway) -> None:
    two = Gateway(["http://127.0.0.1:1", f"http://127.0.0.1:{fake.port}"], None, None, 30)
    two.put("t", [ROW])
    assert fake.tables["t"].cells == {(b"k", b"cf:a"): {5: b"v"}}
    fake.stop()
    with pytest.raises(RetriableException, match="cannot be reached"):
        two.put("t", [ROW])
    two.close()
