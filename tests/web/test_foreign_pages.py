"""What browsers send on behalf of foreign pages is refused; programs and own pages are not."""

import pytest

from moldau.web.application import Application, Service
from moldau.web.authentication import BasicAuthentication


@pytest.fixture
def http(run_service):
    with run_service() as serving, serving.client() as client:
        yield client


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_a_foreign_page_changes_nothing(http, headers):
    """Without a type, a body travels without a question to the service first."""
    for method, path in (("POST", "/echo"), ("DELETE", "/text")):
        refused = http.request(method, path, content=b"{}", headers=headers)
        assert (refused.status_code, refused.json()["error_code"]) == (403, 403)
    assert http.get("/text", headers=headers).status_code == 200


def test_programs_and_own_pages_change_things(http):
    host = http.base_url.netloc.decode()
    for headers in (
        {},
        {"Origin": f"http://{host}"},
        {"Sec-Fetch-Site": "same-origin", "Origin": "https://behind.a.proxy"},
        {"Sec-Fetch-Site": "none"},
    ):
        assert http.post("/echo", content=b"{}", headers=headers).status_code == 201


def test_a_name_that_leads_here_is_none_of_ours(http, run_service):
    """DNS rebinding: for the browser, the page and the service are one site."""
    evil = {"Host": "evil.example:80", "Sec-Fetch-Site": "same-origin"}
    for method in ("GET", "POST"):
        refused = http.request(method, "/text", headers=evil)
        assert refused.status_code == 403
        assert "localhost" in refused.json()["message"]
    assert http.get("/text", headers={"Host": "localhost:1"}).status_code == 200
    with run_service(listener={"advertised_host": "Books.example"}) as serving, serving.client() as named:
        assert named.get("/text", headers={"Host": "books.example"}).status_code == 200


def test_who_logs_in_may_use_any_name(run_service):
    basic = BasicAuthentication({"ann": "secret"}, "test")
    with run_service(authenticate=basic) as serving, serving.client(auth=("ann", "secret")) as http:
        assert http.get("/text", headers={"Host": "books.example"}).status_code == 200
        evil = {"Host": "books.example", "Origin": "https://evil.example"}
        assert http.post("/echo", content=b"{}", headers=evil).status_code == 403


def test_a_service_may_take_what_foreign_pages_send(run_application, test_service):
    def make():
        made = test_service()
        return Application(Service(made.description, made.table, takes_foreign_pages=True))

    with run_application(make) as serving, serving.client() as http:
        headers = {"Host": "tunnel.example", "Origin": "https://shop.example"}
        assert http.post("/echo", content=b"{}", headers=headers).status_code == 201
