"""A link opens the page once and in time; what it gives is not what stands in it."""

import threading

import pytest

from regard.view.server.access import LINK_SECONDS, MAX_OPEN_LINKS, Access


class Clock:
    """A time that passes when it is told to."""

    now = 0.0

    def __call__(self):
        return self.now


def test_a_token_is_exchanged_once_and_for_something_else():
    access, used = Access(), []
    token = access.link_token(lambda: used.append(1))
    secret = access.exchange(token)
    assert access.is_secret(secret)
    assert not access.is_secret(token)
    assert len(secret) >= 43 <= len(token)
    assert access.exchange(token) is None
    assert used == [1]


@pytest.mark.parametrize(("late", "fits"), [(-1.0, True), (1.0, False)])
def test_a_link_waits_for_some_minutes_and_no_longer(late, fits):
    clock = Clock()
    access = Access(clock=clock)
    token = access.link_token()
    clock.now = LINK_SECONDS + late
    assert (access.exchange(token) is not None) == fits


@pytest.mark.parametrize("wrong", ["", "x", "é", "\x00", "a" * 100_000])
def test_what_is_no_token_is_exchanged_for_nothing_and_is_no_secret(wrong):
    access = Access()
    token = access.link_token()
    assert access.exchange(wrong) is None
    assert access.exchange(token[:-1]) is None
    assert not access.is_secret(wrong)
    assert access.exchange(token) == access.secret


def test_links_that_nobody_opens_do_not_gather():
    access = Access()
    tokens = [access.link_token() for _ in range(MAX_OPEN_LINKS + 1)]
    assert access.exchange(tokens[0]) is None
    assert access.exchange(tokens[1]) == access.secret


def test_of_many_at_once_one_gets_in():
    access, found = Access(), []
    token = access.link_token()
    threads = [
        threading.Thread(target=lambda: found.append(access.exchange(token))) for _ in "12345678"
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found.count(access.secret) == 1
    assert found.count(None) == 7


def test_neither_secret_nor_links_are_shown():
    access = Access("very-secret")
    access.link_token()
    assert "very-secret" not in repr(access)
