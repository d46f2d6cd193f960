"""The state loads what is asked for, keeps what fits, and tells the terminal what no page hears."""

import asyncio
import threading
import weakref
from dataclasses import replace

import pytest

from regard.view.server.app_state import AppState, LoadError
from regard.view.server.errors import RefusedError
from tests.view.server.house import FILES, Toy, offer, seen


@pytest.fixture
def state():
    lines = []
    one = AppState({}, {}, lines.append, budget=1000, page_files=FILES)
    one.lines = lines
    yield one
    one.close()


def test_a_model_is_loaded_once_and_leaves_when_others_need_the_room(state):
    loads = []

    def loading(name):
        return replace(offer(Toy(200), name), load=lambda: loads.append(name) or Toy(200))

    offers = {name: loading(name) for name in "abc"}
    for name in "aabcba":
        state.load_model(offers[name])
    assert loads == ["a", "b", "c", "a"]
    assert state.loaded_models.bytes == 400


def test_a_model_that_cannot_be_loaded_is_a_matter_for_the_terminal(state):
    def broken():
        raise ValueError("/home/me/runs/x/card.json is wrong")

    with pytest.raises(LoadError, match=r"toy: ValueError: /home/me") as error:
        state.load_model(replace(offer(Toy()), load=broken))
    assert state._error_message(error.value).startswith(
        "the model could not be loaded; the terminal"
    )
    assert "/home/me/runs/x/card.json" in state.lines[0]


def test_only_our_own_sentences_go_to_the_page(state):
    assert state._error_message(ValueError("toy: expected x")) == "toy: expected x"
    assert state.lines == []
    told = state._error_message(RuntimeError("at 0x7f of /home/me"))
    assert told == "the model failed; the terminal where regard serve runs says why"
    assert state.lines == ["RuntimeError: at 0x7f of /home/me"]


def test_a_trace_is_found_by_its_id_and_leaves_for_newer_ones():
    state = AppState({}, {}, print, budget=60_000, page_files=FILES)
    ids = [state.store_trace(seen(str(n)), {}) for n in range(20)]
    assert len(set(ids)) == 20
    assert all(len(id) == 32 and int(id, 16) >= 0 for id in ids)
    assert state.get_trace(ids[-1]).trace.header.title == "19"
    with pytest.raises(RefusedError, match="no trace of this id is kept here"):
        state.get_trace(ids[0])
    assert state.traces.bytes <= 30_000
    state.close()


@pytest.mark.parametrize("id", ["", "..", "../../etc/passwd", "0" * 32, "%2e%2e", "\0"])
def test_an_id_is_looked_up_and_is_no_path(state, id):
    with pytest.raises(RefusedError, match="no trace of this id is kept here; run it again, or"):
        state.get_trace(id)


def test_what_takes_a_moment_is_done_beside_the_loop(state):
    async def both():
        names = [state.run_in_read_pool(lambda: threading.current_thread().name) for _ in range(2)]
        opened = state.run_in_open_pool(lambda: threading.current_thread().name)
        return await asyncio.gather(*names, opened)

    *read, opened = asyncio.run(both())
    assert all(name.startswith("regard-reader") for name in read)
    assert opened.startswith("regard-opener")


def test_room_is_made_for_certain_also_where_an_error_holds_a_trace_in_a_cycle(state):
    class Large:
        pass

    def fail():
        large = Large()
        state.traces.add("a", large, 900)
        left.append(weakref.ref(large))
        try:
            raise ValueError("no")
        except ValueError as error:
            again = error  # the error's frame holds the error
        return again.args

    left: list = []
    fail()
    assert left[0]() is not None
    state.make_room(500)
    assert left[0]() is None
