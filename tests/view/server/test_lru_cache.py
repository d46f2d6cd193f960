"""A cache holds what was used last, within its budget."""

import threading

from regard.view.server.lru_cache import LRUCache


def test_what_was_used_longest_ago_goes_first():
    cache = LRUCache(10)
    cache.add("a", 1, 4)
    cache.add("b", 2, 4)
    assert cache.get("a") == 1
    cache.add("c", 3, 4)
    assert [name for name, _ in cache.items()] == ["a", "c"]
    assert cache.get("b") is None
    assert cache.bytes == 8


def test_several_go_for_one_that_is_large_and_it_stays_even_alone():
    cache = LRUCache(10)
    for name in "abc":
        cache.add(name, name, 3)
    cache.add("large", "large", 7)
    assert [name for name, _ in cache.items()] == ["c", "large"]
    cache.add("larger", "larger", 11)
    assert cache.items() == [("larger", "larger")]


def test_the_order_is_that_of_coming_and_not_of_use():
    cache = LRUCache(100)
    for name in "abc":
        cache.add(name, name, 1)
    cache.get("a")
    assert [name for name, _ in cache.items()] == ["a", "b", "c"]


def test_what_is_put_anew_counts_once():
    cache = LRUCache(10)
    cache.add("a", 1, 6)
    cache.add("a", 2, 6)
    assert cache.items() == [("a", 2)]
    assert cache.bytes == 6


def test_many_threads_keep_it_within_its_budget():
    cache = LRUCache(50)

    def work(start):
        for n in range(300):
            cache.add(f"{start}-{n}", n, 7)
            cache.get(f"{start}-{n - 2}")

    threads = [threading.Thread(target=work, args=[n]) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert cache.bytes == 49


def test_room_is_made_for_what_is_about_to_come():
    cache = LRUCache(10)
    for name in "abc":
        cache.add(name, name, 3)
    cache.make_room(1)
    assert [name for name, _ in cache.items()] == ["a", "b", "c"]
    cache.make_room(5)
    assert [name for name, _ in cache.items()] == ["c"]
    cache.make_room(100)
    assert cache.bytes == 0
