"""ACLs, users and quotas through forms, on a broker with logins and an authorizer."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from moldau.testing import Broker

SETTINGS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:admin",
    "sasl.jaas.config": 'x.PlainLoginModule required user_admin="s" user_ann="s";',
}
CLIENT = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "admin",
    "sasl.password": "s",
}


@pytest.fixture
def secured() -> Iterator[Broker]:
    with Broker(SETTINGS) as broker:
        yield broker


def test_a_cluster_without_an_authorizer_says_so(console: Any) -> None:
    assert "SECURITY_DISABLED" in console.get("/access").words


@pytest.mark.slow
def test_permissions_users_and_quotas(make_console: Callable[..., Any], secured: Broker) -> None:
    console = make_console(broker=secured, client=CLIENT)
    acl = {
        "principal": "User:ann",
        "permission": "3",
        "operation": "3",
        "resource_type": "2",
        "resource_name": "orders",
        "pattern_type": "4",
        "host": "*",
    }
    assert "User:ann may read Topic orders …" in console.post("/access/add", **acl).words
    wrong = console.post("/access/add", **{**acl, "principal": "ann"})
    assert "written with a type" in wrong.words
    for typed in ('value="ann"', 'value="orders"', 'value="4" selected'):
        assert typed in wrong.text
    assert console.post("/access/add", **{**acl, "operation": "99"}).status == 400
    assert "0 ACLs" in console.post("/access/remove", **acl).words
    assert "not there any more" in console.post("/access/remove", **acl).words
    page = console.post("/access/set-user", user="bob", password="a very secret one", mechanism="1")
    assert "bob SCRAM-SHA-256 (8192 iterations)" in page.words
    assert "a very secret one" not in page.text + console.get("/audit").text
    removed = console.post("/access/remove-user", user="bob", mechanism="1")
    assert "bob has that password no more" in removed.words
    assert console.post("/access/set-user", user="", password="", mechanism="1").status == 400
    page = console.post("/access/quota", user="ann", quota="producer_byte_rate", value="10485760")
    assert "user ann producer_byte_rate 10,485,760 " in page.words
    page = console.post("/access/quota", user="ann", quota="producer_byte_rate", value="")
    assert "The quota is removed" in page.words
    wrong = console.post("/access/quota", user="ann", quota="consumer_byte_rate", value="much")
    assert (wrong.status, 'value="much"' in wrong.text) == (400, True)
    assert console.post("/access/quota", quota="producer_byte_rate", value="1").status == 400


@pytest.mark.slow
def test_people_log_in_and_act_as_themselves(make_console: Callable[..., Any], secured: Broker) -> None:
    client = {name: CLIENT[name] for name in ("security.protocol", "sasl.mechanism")}
    admin = make_console(broker=secured, client=client, login=True)
    page = admin.get("/topics")
    assert page.response.url.path == "/login"
    wrong = admin.http.post("/login", data={"token": page.token, "user": "ann", "password": "wrong"})
    assert (wrong.status_code, "wrong" in wrong.text) == (401, True)
    form = {"token": page.token, "user": "admin", "password": "s", "next": "/c/local/topics"}
    inside = admin.http.post("/login", data=form)
    assert inside.url.path == "/c/local/topics"
    assert "admin" in inside.text
    assert "Topic t is there" in admin.post("/new-topic", name="t").words

    from tests.console.conftest import Browser

    ann = Browser(admin.url)
    page = ann.get("/topics")
    form = {"token": page.token, "user": "ann", "password": "s", "next": "//evil.example"}
    assert ann.http.post("/login", data=form).url.path == "/c/local"
    assert "There is no topic yet" in ann.get("/topics").words  # she may see none
    refused = ann.post("/new-topic", name="hers")
    assert refused.status == 502
    assert "AUTHORIZATION_FAILED" in refused.words
    assert "create topic hers" in ann.get("/audit").words
    assert "create topic t " not in ann.get("/audit").words
    out = ann.http.post("/logout", data={"token": ann.get("/topics").token})
    assert out.url.path == "/login"
    assert ann.get("/topics").response.url.path == "/login"
    assert admin.get("/topics").response.url.path == "/c/local/topics"
    ann.http.close()


def test_a_token_does_not_help_where_it_is_read_only(
    make_console: Callable[..., Any], secured: Broker
) -> None:
    client = {name: CLIENT[name] for name in ("security.protocol", "sasl.mechanism")}
    admin = make_console(broker=secured, client=client, login=True, read_only=True)
    form = {"token": admin.get("/topics").token, "user": "admin", "password": "s"}
    admin.http.post("/login", data=form)
    token = admin.get("/topics").token  # of the button that logs out
    refused = admin.http.post("/c/local/new-topic", data={"token": token, "name": "t"})
    assert refused.status_code == 403
    assert "read-only" in refused.text
    assert "t" not in secured.topics()
    assert admin.http.post("/logout", data={"token": token}).url.path == "/login"
