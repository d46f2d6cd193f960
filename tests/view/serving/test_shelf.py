"""A shelf holds what was used last, within its budget."""

import threading

from regard.view.serving.shelf import Shelf


def test_what_was_used_longest_ago_goes_first():
    shelf = Shelf(10)
    shelf.put("a", 1, 4)
    shelf.put("b", 2, 4)
    assert shelf.get("a") == 1
    shelf.put("c", 3, 4)
    assert [name for name, _ in shelf.all()] == ["a", "c"]
    assert shelf.get("b") is None
    assert shelf.bytes == 8


def test_several_go_for_one_that_is_large_and_it_stays_even_alone():
    shelf = Shelf(10)
    for name in "abc":
        shelf.put(name, name, 3)
    shelf.put("large", "large", 7)
    assert [name for name, _ in shelf.all()] == ["c", "large"]
    shelf.put("larger", "larger", 11)
    assert shelf.all() == [("larger", "larger")]


def test_the_order_is_that_of_coming_and_not_of_use():
    shelf = Shelf(100)
    for name in "abc":
        shelf.put(name, name, 1)
    shelf.get("a")
    assert [name for name, _ in shelf.all()] == ["a", "b", "c"]


def test_what_is_put_anew_counts_once():
    shelf = Shelf(10)
    shelf.put("a", 1, 6)
    shelf.put("a", 2, 6)
    assert shelf.all() == [("a", 2)]
    assert shelf.bytes == 6


def test_many_threads_keep_it_within_its_budget():
    shelf = Shelf(50)

    def work(start):
        for n in range(300):
            shelf.put(f"{start}-{n}", n, 7)
            shelf.get(f"{start}-{n - 2}")

    threads = [threading.Thread(target=work, args=[n]) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert shelf.bytes == 49


def test_room_is_made_for_what_is_about_to_come():
    shelf = Shelf(10)
    for name in "abc":
        shelf.put(name, name, 3)
    shelf.make_room(1)
    assert [name for name, _ in shelf.all()] == ["a", "b", "c"]
    shelf.make_room(5)
    assert [name for name, _ in shelf.all()] == ["c"]
    shelf.make_room(100)
    assert shelf.bytes == 0
