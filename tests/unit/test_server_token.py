"""With a token nobody gets in without it: senders show it each time, browsers once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]  # ships no types

from spectrace.otlp.body import JSON, PROTOBUF
from spectrace.server.run import PageServer
from spectrace.server.token import Token
from tests.helpers.collector import Collector, collecting

TOKEN = Token("a-token-for-the-tests")
PATHS = ["/", "/api/state", "/api/live", "/api/requests", "/assets/none.js", "/v1/traces", "//x"]


@pytest.fixture(scope="module")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collector]:
    """A collector that wants the token."""
    with collecting(tmp_path_factory.mktemp("store"), TOKEN) as running:
        yield running


@pytest.fixture
def client(collector: Collector) -> Iterator[httpx.Client]:
    """A browser that has not been here."""
    with httpx.Client(base_url=collector.server.url, trust_env=False) as client:
        yield client


@pytest.mark.parametrize("path", PATHS)
def test_nothing_is_shown_without_it(client: httpx.Client, path: str) -> None:
    """Neither the page nor its parts, whatever wrong is shown."""
    wrong = TOKEN.text[:-1] + "x"
    for headers in (
        {},
        {"authorization": f"Bearer {wrong}"},
        {"authorization": TOKEN.text},
        {"cookie": f"{TOKEN.cookie_name}={wrong}"},
        {"cookie": f"{TOKEN.cookie_name}={TOKEN.text}"},
        {"cookie": f"{TOKEN.cookie_name}="},
    ):
        answer = client.get(path, headers=headers)
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
    assert client.get(path, params={"token": wrong}).status_code == 401


def test_a_sender_is_told_in_its_own_type(client: httpx.Client) -> None:
    """A google.rpc.Status with UNAUTHENTICATED, which no exporter sends again."""
    refused = client.post("/v1/traces", content=b"", headers={"content-type": PROTOBUF})
    assert (refused.status_code, refused.headers["content-type"]) == (401, PROTOBUF)
    assert Status.FromString(refused.content).code == 16
    refused = client.post("/v1/traces", content=b"{}", headers={"content-type": JSON})
    assert (refused.status_code, refused.json()["code"]) == (401, 16)
    shown = {"content-type": JSON, "authorization": f"bearer {TOKEN.text}"}
    assert client.post("/v1/traces", content=b"{}", headers=shown).status_code == 200


def test_a_browser_shows_it_once(collector: Collector, client: httpx.Client) -> None:
    """It is sent on without the token in its address, and from then on has a cookie."""
    entered = client.get(collector.server.entrance)
    assert (entered.status_code, entered.headers["location"]) == (303, "/")
    cookie = entered.headers["set-cookie"]
    assert "httponly" in cookie.lower()
    assert "samesite=strict" in cookie.lower()
    assert TOKEN.text not in cookie
    assert client.get("/api/state").status_code == 200
    assert client.get("/").status_code == 200


def test_a_token_with_a_plus_sign_opens_the_page(tmp_path: Path) -> None:
    """Typed in as it is it means a space; base64 has it."""
    token = Token("c2VjcmV0+c2VjcmV0/==")
    with collecting(tmp_path, token) as collector:
        for address in (
            collector.server.entrance,
            f"{collector.server.url}/?token=c2VjcmV0%2Bc2VjcmV0/==",
        ):
            assert httpx.get(address).status_code == 303


def test_the_way_in_leads_nowhere_else(client: httpx.Client) -> None:
    """An address with another host behind its slashes stays here."""
    answer = client.get(f"{client.base_url}//evil.example/%2e%2e?token={TOKEN.text}")
    assert answer.status_code == 303
    assert httpx.URL(answer.headers["location"]).is_relative_url
    assert not answer.headers["location"].startswith("//")


def test_a_page_of_somebody_else_gets_nothing_with_the_cookie(client: httpx.Client) -> None:
    """Its Origin gives it away, cookie or not."""
    cookie = {"cookie": f"{TOKEN.cookie_name}={TOKEN.cookie_value}"}
    assert client.get("/api/state", headers=cookie).status_code == 200
    foreign = cookie | {"origin": "http://evil.example"}
    assert client.get("/api/state", headers=foreign).status_code == 403


def test_any_name_of_the_machine_will_do(client: httpx.Client) -> None:
    """Who has the token may call the machine what they like."""
    headers = {"host": "gpu-07.lan:7711", "authorization": f"Bearer {TOKEN.text}"}
    assert client.get("/api/state", headers=headers).status_code == 200


def test_each_token_has_a_cookie_of_its_own() -> None:
    """Two spectraces on one machine share the cookies of a browser."""
    other = Token.make()
    assert other.cookie_name != TOKEN.cookie_name
    both = (
        f"a=b; {other.cookie_name}={other.cookie_value}; {TOKEN.cookie_name}={TOKEN.cookie_value}"
    )
    assert other.is_remembered_in(both)
    assert TOKEN.is_remembered_in(both)


def test_the_entrance_holds_the_token_and_the_address_does_not(
    collector: Collector, tmp_path: Path
) -> None:
    """Without a token they are the same."""
    assert collector.server.entrance == f"{collector.server.url}/?token={TOKEN.text}"
    with collecting(tmp_path) as open_one:
        server: PageServer = open_one.server
        assert server.entrance == server.url
