"""The desk loads what is asked for, keeps what fits, and tells the terminal what no page hears."""

import asyncio
import threading
import weakref
from dataclasses import replace

import pytest

from regard.view.serving.desk import Desk, LoadError
from regard.view.serving.refusing import RefusedError
from tests.view.serving.house import FILES, Toy, offer, seen


@pytest.fixture
def desk():
    lines = []
    one = Desk({}, {}, lines.append, budget=1000, files=FILES)
    one.lines = lines
    yield one
    one.close()


def test_a_model_is_loaded_once_and_leaves_when_others_need_the_room(desk):
    loads = []

    def loading(name):
        return replace(offer(Toy(200), name), load=lambda: loads.append(name) or Toy(200))

    offers = {name: loading(name) for name in "abc"}
    for name in "aabcba":
        desk.model(offers[name])
    assert loads == ["a", "b", "c", "a"]
    assert desk.models.bytes == 400


def test_a_model_that_cannot_be_loaded_is_a_matter_for_the_terminal(desk):
    def broken():
        raise ValueError("/home/me/runs/x/card.json is wrong")

    with pytest.raises(LoadError, match=r"toy: ValueError: /home/me") as error:
        desk.model(replace(offer(Toy()), load=broken))
    assert desk._failed(error.value).startswith("the model could not be loaded; the terminal")
    assert "/home/me/runs/x/card.json" in desk.lines[0]


def test_only_our_own_sentences_go_to_the_page(desk):
    assert desk._failed(ValueError("toy: expected x")) == "toy: expected x"
    assert desk.lines == []
    told = desk._failed(RuntimeError("at 0x7f of /home/me"))
    assert told == "the model failed; the terminal where regard serve runs says why"
    assert desk.lines == ["RuntimeError: at 0x7f of /home/me"]


def test_a_trace_is_found_by_its_id_and_leaves_for_newer_ones():
    desk = Desk({}, {}, print, budget=60_000, files=FILES)
    ids = [desk.keep(seen(str(n)), {}) for n in range(20)]
    assert len(set(ids)) == 20
    assert all(len(id) == 32 and int(id, 16) >= 0 for id in ids)
    assert desk.found(ids[-1]).trace.header.title == "19"
    with pytest.raises(RefusedError, match="no trace of this id is kept here"):
        desk.found(ids[0])
    assert desk.traces.bytes <= 30_000
    desk.close()


@pytest.mark.parametrize("id", ["", "..", "../../etc/passwd", "0" * 32, "%2e%2e", "\0"])
def test_an_id_is_looked_up_and_is_no_path(desk, id):
    with pytest.raises(RefusedError, match="no trace of this id is kept here; run it again, or"):
        desk.found(id)


def test_what_takes_a_moment_is_done_beside_the_loop(desk):
    async def both():
        names = [desk.read(lambda: threading.current_thread().name) for _ in range(2)]
        opened = desk.open(lambda: threading.current_thread().name)
        return await asyncio.gather(*names, opened)

    *read, opened = asyncio.run(both())
    assert all(name.startswith("regard-reader") for name in read)
    assert opened.startswith("regard-opener")


def test_room_is_made_for_certain_also_where_an_error_holds_a_trace_in_a_cycle(desk):
    class Large:
        pass

    def fail():
        large = Large()
        desk.traces.put("a", large, 900)
        left.append(weakref.ref(large))
        try:
            raise ValueError("no")
        except ValueError as error:
            again = error  # the error's frame holds the error
        return again.args

    left: list = []
    fail()
    assert left[0]() is not None
    desk.make_room(500)
    assert left[0]() is None
