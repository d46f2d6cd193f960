"""The bounds are those that the issue names."""

from regard.view.server.limits import Limits


def test_a_page_is_told_six_of_them():
    assert Limits().to_json() == {
        "text": 32 * 1024,
        "image": 8 * 1024 * 1024,
        "pixels": 16_000_000,
        "trace": 256 * 1024 * 1024,
        "tokens": 32_768,
        "waiting": 4,
    }
