"""What is sent is read within bounds, and JSON is taken by the letter."""

import asyncio
import io
import json

import pytest

from regard.view.server.bodies import parse_json_object, read_body, read_json_body, write_body
from regard.view.server.errors import RefusedError


def request(pieces, headers=()):
    """A request whose body comes in these pieces, and how many of them were asked for."""
    from starlette.requests import Request

    left, taken = list(pieces), []

    async def receive():
        if not left:
            return {"type": "http.request", "body": b"", "more_body": False}
        taken.append(left.pop(0))
        if taken[-1] is None:
            await asyncio.sleep(60)
        return {"type": "http.request", "body": taken[-1], "more_body": True}

    scope = {"type": "http", "method": "POST", "path": "/", "headers": list(headers)}
    return Request(scope, receive), taken


def refused(status, work):
    with pytest.raises(RefusedError) as error:
        asyncio.run(work)
    assert error.value.status == status
    return error.value.sentence


def test_a_body_is_all_of_its_pieces():
    given, _ = request([b"ab", b"", b"cd"])
    assert asyncio.run(read_body(given, 4)) == b"abcd"
    given, file = request([b"ab", b"cd"])[0], io.BytesIO()
    asyncio.run(write_body(given, file, 4))
    assert file.getvalue() == b"abcd"


def test_a_body_over_the_bound_is_refused_before_it_is_all_there():
    given, taken = request([b"12345"] * 1000)
    assert "expected a body of at most 8 bytes, got more" in refused(413, read_body(given, 8))
    assert len(taken) == 2


@pytest.mark.parametrize("said", [b"9", b"99999999999999999999", b"-1", b"1e3", b"\xb2"])
def test_a_length_that_is_too_large_or_no_number_is_refused_unread(said):
    given, taken = request([b"x"], [(b"content-length", said)])
    refused(413, read_body(given, 8))
    assert taken == []


def test_a_body_that_lies_about_its_length_is_counted_all_the_same():
    given, taken = request([b"12345"] * 1000, [(b"content-length", b"3")])
    refused(413, read_body(given, 8))
    assert len(taken) == 2


def test_a_body_that_does_not_arrive_is_not_waited_for():
    given, _ = request([b"a", None])
    assert "did not arrive within 0.05 s" in refused(408, read_body(given, 8, seconds=0.05))


def test_a_body_that_ends_early_is_refused():
    from starlette.requests import Request

    async def receive():
        return {"type": "http.disconnect"}

    gone = Request({"type": "http", "method": "POST", "headers": []}, receive)
    assert refused(400, read_body(gone, 8)) == "the body ended before it was whole"


def test_json_is_an_object():
    given, _ = request([b'{"a": [1, 2.5, null', b', true, "\xc3\xa9"]}'])
    assert asyncio.run(read_json_body(given, 100)) == {"a": [1, 2.5, None, True, "é"]}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", "something else"),
        (b"{", "something else"),
        (b"\xff\xfe{}", "something else"),
        ("{}".encode("utf-16"), "something else"),
        (b'{"a": 1} x', "something else"),
        (b"[1]", "expected a JSON object, got another value"),
        (b'{"a": NaN}', "NaN, which is not finite"),
        (b'{"a": [-Infinity]}', "-Infinity, which is not finite"),
        (b'{"a": 1e999}', "a number that is not finite"),
        (b'{"a": 1, "a": 2}', "a name twice in one object"),
        (b'{"a": "\\ud800"}', "half a character"),
        (b'{"\\udfff": 1}', "half a character"),
        (b'{"a": ' + b"[" * 40 + b"]" * 40 + b"}", "more than 32 levels"),
        (b"[" * 30_000 + b"]" * 30_000, "something else"),
        (b'{"a": [1' + b"0" * 400 + b"]}", "a whole number of 2.63 or more"),
        (b'{"a": ' + b"9" * 5000 + b"}", "something else"),
    ],
    ids=str,
)
def test_json_that_would_trouble_its_reader_is_refused(text, words):
    with pytest.raises(RefusedError, match=words):
        parse_json_object(text[:60_000])


def test_depth_is_counted_in_levels():
    deep = json.loads("[" * 31 + "]" * 31)
    assert parse_json_object(json.dumps({"a": deep}).encode()) == {"a": deep}
