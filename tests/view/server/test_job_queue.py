"""One run at a time, the others wait; each can be watched, stopped, and forgotten."""

import threading
import time
from contextlib import suppress

import pytest

from regard.view.server.job_queue import JobQueue, QueueFullError


@pytest.fixture
def queue():
    queues = []

    def made(**given):
        queues.append(JobQueue(**given))
        return queues[-1]

    yield made
    for one in queues:
        one.close(timeout=1.0)


def ended(run, seconds=5.0):
    """How a run ended, once it has."""
    until = time.monotonic() + seconds
    while not run.is_finished and time.monotonic() < until:
        time.sleep(0.002)
    return run.last_event


def held(go):
    """Work that goes on, step by step, until it is let go."""

    def work(on_progress):
        step = 0
        while not go.wait(0.002):
            on_progress(step := step + 1, 9, "so far")
        return "id"

    return work


def begun(run):
    while run.last_event.get("done", 0) < 1:
        time.sleep(0.002)


def test_a_run_gives_the_id_of_a_trace(queue):
    run = queue().add(lambda on_progress: "abc")
    assert ended(run) == {"kind": "done", "trace": "abc"}
    assert run.to_json() == {"id": run.id, "state": "done", "trace": "abc", "error": None}


def test_those_in_the_queue_know_how_many_go_before_them(queue):
    one, go = queue(), threading.Event()
    runs = [one.add(held(go)) for _ in range(3)]
    begun(runs[0])
    assert runs[0].to_json()["state"] == "running"
    assert runs[0].last_event == {"kind": "progress", "done": runs[0].last_event["done"]} | {
        "total": 9,
        "text": "so far",
    }
    assert [run.last_event for run in runs[1:]] == [{"kind": "waiting", "ahead": n} for n in (1, 2)]
    assert one.counts() == (1, 2)
    one.cancel(runs[1])
    assert runs[2].last_event == {"kind": "waiting", "ahead": 1}
    go.set()
    assert ended(runs[2])["kind"] == "done"


def test_no_more_wait_than_may(queue):
    one, go = queue(max_waiting=2), threading.Event()
    begun(one.add(held(go)))
    for _ in range(2):
        one.add(held(go))
    with pytest.raises(QueueFullError, match="2 runs wait already; ask again when one is done"):
        one.add(held(go))
    go.set()


def test_a_run_that_waits_is_cancelled_at_once_and_one_that_goes_on_at_its_next_step(queue):
    one, go = queue(), threading.Event()
    first, second = one.add(held(go)), one.add(held(go))
    begun(first)
    one.cancel(second)
    assert second.last_event == {"kind": "cancelled"}
    one.cancel(first)
    assert ended(first) == {"kind": "cancelled"}
    one.cancel(first)
    assert first.last_event == {"kind": "cancelled"}


def test_no_except_of_a_model_holds_a_cancelled_run_up(queue):
    def stubborn(on_progress):
        while True:
            with suppress(Exception):
                on_progress(1, None, None)

    run = (one := queue()).add(stubborn)
    begun(run)
    one.cancel(run)
    assert ended(run) == {"kind": "cancelled"}


def test_a_run_that_takes_too_long_fails_in_words(queue):
    run = queue(job_seconds=0.05).add(held(threading.Event()))
    assert ended(run) == {"kind": "failed", "error": "it took more than 0.05 s and was stopped"}


def test_an_error_is_told_as_the_house_wants_it_and_the_next_goes_on(queue):
    def broken(on_progress):
        raise KeyError("a")

    one = queue(format_error=lambda error: f"oh: {type(error).__name__}")
    assert ended(one.add(broken)) == {"kind": "failed", "error": "oh: KeyError"}
    assert ended(one.add(lambda on_progress: "b")) == {"kind": "done", "trace": "b"}


def test_any_number_may_watch_and_who_comes_late_knows_the_last(queue):
    one, go, heard = queue(), threading.Event(), [[], []]
    run = one.add(held(go))
    ends = [run.subscribe(lambda kept=kept: kept.append(run.last_event["kind"])) for kept in heard]
    begun(run)
    ends[1]()
    there = len(heard[1])
    go.set()
    ended(run)
    assert heard[0][-1] == "done"
    assert len(heard[1]) == there
    assert run.last_event["kind"] == "done"


def test_a_watcher_that_has_gone_troubles_nobody(queue):
    def gone():
        raise RuntimeError("its loop is closed")

    one, go = queue(), threading.Event()
    run = one.add(held(go))
    run.subscribe(gone)
    go.set()
    assert ended(run)["kind"] == "done"


def test_runs_that_have_ended_are_forgotten_the_oldest_first(queue):
    one = queue(max_finished=2)
    runs = []
    for n in range(4):
        runs.append(one.add(lambda on_progress, n=n: str(n)))
        ended(runs[-1])
    assert [one.find_job(run.id) for run in runs] == [None, None, *runs[2:]]
    assert one.find_job("../../etc/passwd") is None


def test_a_lesson_goes_before_runs_that_wait_and_in_the_same_thread(queue):
    one, go, order = queue(), threading.Event(), []
    first = one.add(held(go))
    begun(first)
    last = one.add(lambda on_progress: order.append("run") or threading.current_thread().name)
    future = one.submit_call(lambda: order.append("lesson") or threading.current_thread().name)
    go.set()
    assert future.result(5) == ended(last)["trace"] == "regard-worker"
    assert order == ["lesson", "run"]


def test_a_lesson_that_breaks_breaks_for_who_asked_alone(queue):
    one = queue(max_calls=1)
    with pytest.raises(ZeroDivisionError):
        one.submit_call(lambda: 1 / 0).result(5)
    assert one.submit_call(lambda: 2).result(5) == 2


def test_no_more_lessons_wait_than_may(queue):
    one, go = queue(max_calls=1), threading.Event()
    begun(one.add(held(go)))
    one.submit_call(lambda: 1)
    with pytest.raises(QueueFullError, match="1 lessons wait already; ask again"):
        one.submit_call(lambda: 1)
    go.set()


def test_a_queue_that_closes_stops_all(queue):
    one = queue()
    runs = [one.add(held(threading.Event())) for _ in range(2)]
    begun(runs[0])
    future = one.submit_call(lambda: 1)
    one.close()
    assert [ended(run) for run in runs] == [{"kind": "cancelled"}] * 2
    assert future.cancelled()
    with pytest.raises(QueueFullError):
        one.add(lambda on_progress: "a")
