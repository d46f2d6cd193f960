"""What was bound has its own names and no other."""

import socket

import pytest

from regard.view.server.address import ServerAddress, host_names_of, is_reachable, open_socket


@pytest.mark.parametrize(
    ("host", "names"),
    [
        ("127.0.0.1", ("127.0.0.1", "localhost")),
        ("localhost", ("127.0.0.1", "localhost")),
        ("127.0.0.2", ("127.0.0.2",)),
    ],
)
def test_this_machine_has_its_address_and_its_name(host, names):
    with open_socket(host, 0) as listening:
        assert host_names_of(listening, host) == names
        assert not is_reachable(listening)


def test_of_the_newer_kind_the_address_stands_in_brackets():
    try:
        listening = open_socket("::1", 0)
    except OSError:
        pytest.skip("this machine has no ::1")
    with listening:
        assert host_names_of(listening, "::1") == ("[::1]", "localhost")


def test_all_addresses_have_those_of_this_machine_and_others_can_reach_them():
    with open_socket("0.0.0.0", 0) as listening:
        assert {"127.0.0.1", "localhost", socket.gethostname().lower()} <= set(
            host_names_of(listening, "0.0.0.0")
        )
        assert is_reachable(listening)


def test_what_is_accepted_is_sent_at_once():
    with (
        open_socket("127.0.0.1", 0) as listening,
        socket.create_connection(listening.getsockname()),
        listening.accept()[0] as line,
    ):
        assert line.proto == socket.IPPROTO_TCP  # what asyncio wants to see to send at once


def test_hosts_and_origins_have_the_port():
    bound = ServerAddress(8000, ("127.0.0.1", "localhost"))
    assert bound.hosts == {"127.0.0.1:8000", "localhost:8000"}
    assert bound.origins == {"http://127.0.0.1:8000", "http://localhost:8000"}
    assert ServerAddress(80, ("localhost",)).hosts == {"localhost:80", "localhost"}


def test_a_link_has_its_token_where_no_browser_sends_it():
    bound = ServerAddress(8000, ("127.0.0.1", "localhost"))
    assert bound.page_url("T") == "http://127.0.0.1:8000/#token=T"
    assert bound.page_url("T", "#/t/0") == "http://127.0.0.1:8000/#token=T/t/0"


def test_a_port_that_is_taken_and_an_address_that_is_not_here_are_said_in_words():
    with open_socket("127.0.0.1", 0) as listening:
        port = listening.getsockname()[1]
        with pytest.raises(OSError, match=rf"cannot listen on 127\.0\.0\.1:{port}: Address"):
            open_socket("127.0.0.1", port)
    with pytest.raises(OSError, match=r"cannot listen on 192\.0\.2\.1:0: "):
        open_socket("192.0.2.1", 0)
    with pytest.raises(OSError, match="expected an address of this machine, got 'no such name'"):
        open_socket("no such name", 0)
