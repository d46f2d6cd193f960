"""The page opens with a link, and every address answers in one form."""

import sys

import pytest

from tests.view.server.house import BEARER, SECRET, asgi, seen, status


def test_a_token_is_exchanged_for_the_secret_and_dies(house):
    token = house.access.link_token()
    answer = house.client.post("/api/session", json={"token": token})
    assert answer.json() == {"session": SECRET}
    assert answer.headers["cache-control"] == "no-store"
    assert "set-cookie" not in answer.headers
    again = house.client.post("/api/session", json={"token": token})
    assert again.status_code == 401
    assert again.json()["error"].startswith("this link was used already")


def test_who_has_no_secret_yet_may_send_a_token_and_no_more(house):
    given = {"headers": {"authorization": ""}}
    assert house.client.post("/api/session", json={"token": "a" * 2000}, **given).status_code == 413
    assert house.client.post("/api/session", content=b"{", **given).status_code == 400
    assert house.client.post("/api/session", json={"token": "wrong"}, **given).status_code == 401


def test_an_address_with_a_token_of_before_is_the_bare_page(house):
    answer = house.client.get("/", params={"token": SECRET}, headers={"authorization": ""})
    assert answer.status_code == 200
    assert "set-cookie" not in answer.headers


def test_the_page_and_its_files_need_no_token_and_do_not_hold_it(house):
    for at in ("/", "/app.js", "/app.css", "/icon.svg"):
        answer = house.client.get(at, headers={"authorization": ""})
        assert answer.status_code == 200
        assert SECRET not in answer.text
        assert "set-cookie" not in answer.headers


def test_a_file_that_has_not_changed_is_not_sent_again(house):
    tag = house.client.get("/app.js").headers["etag"]
    answer = house.client.get("/app.js", headers={"if-none-match": tag})
    assert (answer.status_code, answer.content) == (304, b"")
    assert house.client.get("/app.js", headers={"if-none-match": '"x"'}).content == b"1"


@pytest.mark.parametrize(
    "path",
    [
        "/../etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/..%2f..%2fetc/passwd",
        "/app.js/../secret",
        "/app.js%00",
        "/api/traces/..%2f..%2fetc%2fpasswd",
        "/api/traces/..%5c..%5cwin.ini",
        "/api/traces/;/etc/passwd",
        "/api/lessons/../about",
        "/api/runs/%00",
        "/api//about",
        "/api/about/",
        "/index.html",
        "/openapi.json",
        "/api/traces/x/cells/m/-1/0",
        "/api/traces/x/cells/m/1e9/0",
        f"/api/traces/x/cells/m/0/{'9' * 5000}",
        f"/api/traces/x/rows/m/0/0/{'9' * 5000}",
    ],
)
def test_what_is_not_in_the_table_is_nothing_and_nothing_leaks(house, path):
    sent, _ = asgi(house.app, "GET", path, {"host": "127.0.0.1:8000", **BEARER})
    body = sent[1]["body"].decode()
    assert status(sent) in (404, 405)
    assert not any(word in body for word in ("root:", "Traceback", "/home", "/work", ".py", "etc"))


def test_a_wrong_method_is_told_which_are_right(house):
    answer = house.client.put("/api/traces")
    assert (answer.status_code, answer.json()) == (405, {"error": "this cannot be done here"})
    assert "GET" in answer.headers["allow"]


def test_about_says_what_runs_here(house):
    told = house.client.get("/api/about").json()
    assert set(told) == {"version", "device", "threads", "limits", "memory", "queue", "unreadable"}
    assert told["version"] == sys.modules["regard"].__version__
    assert told["queue"] == {"running": 0, "waiting": 0}
    house.state.store_trace(seen(), {})
    assert house.client.get("/api/about").json()["memory"]["traces"] > 0


def test_models_are_those_that_were_handed_in(house):
    [told] = house.client.get("/api/models").json()
    assert told == house.state.available_models["toy"].to_json()
