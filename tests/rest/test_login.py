"""Logins over HTTP that are the cluster's own: its users, its ACLs, its answers."""

import base64
import json
import ssl

import httpx
import pytest
from joserfc import jws
from joserfc.jwk import KeySet, RSAKey

from moldau.cli.certificates import Authority
from moldau.client.transport.security import Security
from moldau.rest.login import Login, Logins
from moldau.security.principals import PrincipalMapping
from moldau.testing import Broker
from moldau.web.authentication import HttpLogin
from moldau.web.limits import Limits
from moldau.web.server import ListenerOptions
from moldau.web.tls import TlsOptions

USERS = 'user_admin="s" user_ann="a" user_bob="b"'
KEY = RSAKey.generate_key(2048, {"kid": "one", "use": "sig", "alg": "RS256"})
ADMIN = Security.of(
    {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "admin",
        "sasl.password": "s",
    }
)
JSON = {"Content-Type": "application/vnd.kafka.json.v2+json"}
SUBJECT = ((("commonName", "ann"),), (("organizationName", "shop"),))


# As values.


def test_what_a_login_becomes():
    logins = Logins(
        ADMIN,
        mechanism="SCRAM-SHA-512",
        certificates={"ann": "a"},
        mapping=PrincipalMapping("RULE:^.*CN=(.*?),?.*$/$1/"),
    )
    ann = logins.principal_of(HttpLogin("ann", "pw"))
    assert (ann.name, ann.security.mechanism, ann.security.protocol) == (
        "ann",
        "SCRAM-SHA-512",
        "SASL_PLAINTEXT",
    )
    assert (ann.security.credentials.username, ann.security.credentials.password) == ("ann", "pw")
    assert ann.authorization() == "Basic " + base64.b64encode(b"ann:pw").decode()
    bearer = logins.principal_of(HttpLogin(token="t.o.k"))
    assert (bearer.security.mechanism, bearer.authorization()) == ("OAUTHBEARER", "Bearer t.o.k")
    assert bearer.security.credentials.username == ""
    assert logins.principal_of(HttpLogin()) is None
    assert "pw" not in repr(ann)


def test_a_certificate_needs_credentials_of_its_user():
    logins = Logins(ADMIN, certificates={"O=shop,CN=ann": "a"})
    found = logins.principal_of(HttpLogin(subject=SUBJECT))
    assert isinstance(found, Login)
    assert (found.name, found.security.credentials.password) == ("O=shop,CN=ann", "a")
    assert logins.principal_of(HttpLogin(subject=((("commonName", "eve"),),))) is None
    none_fits = Logins(ADMIN, certificates={"ann": "a"}, mapping=PrincipalMapping("RULE:^CN=x$/x/"))
    assert none_fits.principal_of(HttpLogin(subject=SUBJECT)) is None


# At a broker.


@pytest.fixture(scope="module")
def secure(tmp_path_factory):
    keys = tmp_path_factory.mktemp("keys") / "keys.json"
    keys.write_text(json.dumps(KeySet([KEY]).as_dict(private=False)))
    settings = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER",
        "sasl.jaas.config": f"x.PlainLoginModule required {USERS};",
        "sasl.oauthbearer.jwks.endpoint.url": f"file://{keys}",
        "sasl.oauthbearer.expected.audience": "kafka",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin",
        "group.initial.rebalance.delay.ms": 0,
        "connection.failed.authentication.delay.ms": 1,
    }
    with Broker(settings) as broker:
        yield broker


@pytest.fixture
def proxy(secure, start_at):
    with start_at(secure.bootstrap_servers, security=ADMIN, pass_login=True) as proxy:
        yield proxy
    secure.reset()


def acls(proxy):
    cluster = proxy.http.get("/v3/clusters", auth=("admin", "s")).json()["data"][0]["cluster_id"]
    return f"/v3/clusters/{cluster}/acls"


def allow(proxy, principal, operation, kind="TOPIC", name="orders"):
    acl = {
        "resource_type": kind,
        "resource_name": name,
        "pattern_type": "LITERAL",
        "principal": f"User:{principal}",
        "host": "*",
        "operation": operation,
        "permission": "ALLOW",
    }
    made = proxy.http.post(acls(proxy), json=acl, auth=("admin", "s"))
    assert (made.status_code, made.content) == (201, b""), made.text
    return acl


def test_the_acls_of_the_cluster_decide(secure, proxy, refusal):
    secure.create_topic("orders", 1)
    http, ann, bob = proxy.http, ("ann", "a"), ("bob", "b")
    assert http.get("/topics", auth=("admin", "s")).json() == ["orders"]
    assert http.get("/topics", auth=ann).json() == []
    body = {"records": [{"value": 1}]}
    assert refusal(http.post("/topics/orders", json=body, headers=JSON, auth=ann)) == (403, 40301)
    allow(proxy, "ann", "WRITE")
    assert http.get("/topics", auth=ann).json() == ["orders"]
    written = http.post("/topics/orders", json=body, headers=JSON, auth=ann)
    assert written.json()["offsets"][0]["offset"] == 0, written.text
    assert refusal(http.post("/topics/orders", json=body, headers=JSON, auth=bob)) == (403, 40301)
    settings = {"name": "c", "format": "json", "auto.offset.reset": "earliest"}
    assert http.post("/consumers/g", json=settings, auth=bob).status_code == 200
    path = "/consumers/g/instances/c"
    http.post(f"{path}/subscription", json={"topics": ["orders"]}, auth=bob)
    assert refusal(http.get(f"{path}/records", params={"timeout": 60_000}, auth=bob)) == (403, 40301)
    # Another user does not see the instance at all.
    assert refusal(http.get(f"{path}/records", auth=ann)) == (404, 40403)
    assert refusal(http.delete(path, auth=ann)) == (404, 40403)
    assert refusal(http.post("/consumers/g", json=settings, auth=ann)) == (409, 40902)


def test_acls_are_found_created_and_deleted(proxy, refusal):
    http, admin = proxy.http, ("admin", "s")
    path = acls(proxy)
    acl = allow(proxy, "ann", "WRITE")
    (found,) = http.get(path, params={"principal": "User:ann"}, auth=admin).json()["data"]
    assert {name: found[name] for name in acl} == acl
    assert found["kind"] == "KafkaAcl"
    assert http.get(found["metadata"]["self"], auth=admin).json()["data"] == [found]
    more = {"data": [{**acl, "operation": "READ"}, {**acl, "operation": "DELETE"}]}
    assert http.post(f"{path}:batch", json=more, auth=admin).status_code == 201
    assert len(http.get(path, auth=admin).json()["data"]) == 3
    assert http.get(path, params={"operation": "READ"}, auth=admin).json()["data"][0]["operation"] == "READ"
    every = {"resource_type": "ANY", "pattern_type": "ANY", "operation": "ANY", "permission": "ANY"}
    assert refusal(http.delete(path, auth=admin)) == (400, 400)
    assert refusal(http.delete(path, params=every, auth=("ann", "a"))) == (403, 40301)
    assert len(http.delete(path, params=every, auth=admin).json()["data"]) == 3
    assert http.get(path, auth=admin).json()["data"] == []
    assert refusal(http.post(path, json={**acl, "operation": "FLY"}, auth=admin)) == (400, 400)
    assert refusal(http.post(path, json={"host": "*"}, auth=admin)) == (400, 400)
    assert refusal(http.post(path, json={**acl, "principal": "ann"}, auth=admin))[0] == 400


def test_logins_that_are_refused(proxy, refusal):
    http = proxy.http
    nobody = http.get("/topics")
    assert refusal(nobody) == (401, 401)
    assert nobody.headers["www-authenticate"] == 'Basic realm="kafka-rest"'
    assert refusal(http.get("/topics", auth=("ann", "wrong"))) == (401, 40101)
    assert refusal(http.get("/topics", headers={"Authorization": "Bearer x.y.z"})) == (401, 40101)
    assert refusal(http.get("/topics", headers={"Authorization": "Negotiate abc"})) == (401, 401)
    assert len(proxy.service.sessions) == 1  # what was refused has left nothing behind
    assert http.get("/topics", auth=("ann", "a")).status_code == 200
    assert len(proxy.service.sessions) == 2


def test_a_bearer_token_is_passed_on(secure, proxy):
    now = secure.clock.now_ms() // 1000
    claims = {"sub": "ann", "aud": "kafka", "iat": now, "exp": now + 300}
    header = {"alg": "RS256", "kid": "one"}
    token = jws.serialize_compact(header, json.dumps(claims).encode(), KEY, algorithms=["RS256"])
    secure.create_topic("orders", 1)
    allow(proxy, "ann", "DESCRIBE")
    headers = {"Authorization": f"Bearer {token}"}
    assert proxy.http.get("/topics", headers=headers).json() == ["orders"]
    assert proxy.http.get("/topics/orders/partitions", headers=headers).status_code == 200


@pytest.mark.slow
def test_a_certificate_stands_for_a_user(secure, start_at, tmp_path):
    authority = Authority.create(tmp_path)
    for name, hosts in (("server", ["127.0.0.1", "localhost"]), ("ann", []), ("eve", [])):
        authority.issue(name, hosts=hosts)
    files = authority.directory
    ca = files / "ca.pem"
    secure.create_topic("bills", 1)
    options = {
        "listener": ListenerOptions(tls=TlsOptions(files / "server.pem", None, ca)),
        "security": ADMIN,
        "pass_login": True,
        "certificate_users": {"ann": "a"},
        "principal_mapping": "RULE:^.*CN=([^,]*).*$/$1/",
    }
    with start_at(secure.bootstrap_servers, **options) as proxy:

        def client(name):
            context = ssl.create_default_context(cafile=str(ca))
            context.load_cert_chain(files / f"{name}.pem")
            return httpx.Client(base_url=proxy.url, verify=context, timeout=60, trust_env=False)

        with client("ann") as ann, client("eve") as eve:
            assert ann.get("/topics").json() == []
            assert eve.get("/topics").status_code == 401
            admin = base64.b64encode(b"admin:s").decode()
            assert eve.get("/topics", headers={"Authorization": f"Basic {admin}"}).json() == ["bills"]
    secure.reset()


def test_names_that_nobody_has_checked_do_not_count_apart(secure, start_at):
    limits = Limits(max_requests_per_second=0.001, request_burst=2)
    with start_at(secure.bootstrap_servers, security=ADMIN, pass_login=True, limits=limits) as proxy:
        found = [proxy.http.get("/topics", auth=(name, "guess")).status_code for name in ("a", "b", "c")]
    assert found == [401, 401, 429]


@pytest.mark.slow
def test_sessions_are_bounded(secure, start_at, refusal):
    from dataclasses import replace

    from moldau.rest.proxy import ProxyOptions
    from moldau.rest.server import ServerOptions, serve
    from moldau.rest.sessions import SessionOptions
    from tests.shared.services import running

    sessions = replace(SessionOptions(secure.bootstrap_servers, ADMIN), max_sessions=2)
    with running(serve, ServerOptions(ProxyOptions(sessions, group_id=None), pass_login=True)) as proxy:
        assert proxy.http.get("/topics", auth=("ann", "a")).status_code == 200
        assert refusal(proxy.http.get("/topics", auth=("bob", "b"))) == (503, 503)
        assert proxy.http.get("/topics", auth=("ann", "a")).status_code == 200
