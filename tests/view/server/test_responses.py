"""Answers say what they are, and how long they stay true."""

import json

import pytest

from regard.view.server import responses


def test_json_is_never_stored_and_may_hold_any_text():
    answer = responses.json_response({"a": "é</script>\u2028"}, 201)
    assert answer.status_code == 201
    assert json.loads(answer.body) == {"a": "é</script>\u2028"}
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == "no-store"


def test_what_is_not_finite_is_no_json():
    with pytest.raises(ValueError, match="Out of range float"):
        responses.json_response({"a": float("nan")})


def test_an_array_may_be_kept_for_good():
    answer = responses.array_response(b"\0\1")
    assert (answer.body, answer.headers["content-length"]) == (b"\0\1", "2")
    assert "immutable" in answer.headers["cache-control"]
    assert answer.headers["content-type"] == "application/octet-stream"


def test_a_download_has_a_name():
    answer = responses.download_response(b"x", "image/png", "a.png")
    assert answer.headers["content-disposition"] == 'attachment; filename="a.png"'


def test_after_a_body_that_was_not_read_the_line_is_closed():
    assert responses.error_response(413, "no").headers["connection"] == "close"
    assert "connection" not in responses.error_response(404, "no").headers
    assert json.loads(responses.error_response(404, "no").body) == {"error": "no"}
    assert responses.empty_response().status_code == 204
