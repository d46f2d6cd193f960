"""A drawing has its time, and holds up nobody else."""

import asyncio
import threading
import time

import pytest

from regard.view.server.errors import RefusedError
from regard.view.server.render_queue import RenderQueue


async def there():
    """Whoever asked still waits."""
    return False


def forever():
    """Something that never ends, and holds fast to every exception that it can."""

    def step():
        return 1

    while True:
        try:
            while True:
                step()
        except Exception:
            pass


def test_what_is_drawn_is_given_and_what_is_wrong_is_raised():
    queue = RenderQueue()
    assert asyncio.run(queue.render(lambda: 3, there)) == 3
    with pytest.raises(ZeroDivisionError):
        asyncio.run(queue.render(lambda: 1 / 0, there))
    queue.close()


def test_a_drawing_that_never_ends_is_stopped_in_time_and_the_next_is_drawn():
    queue, began = RenderQueue(seconds=0.3), time.monotonic()
    with pytest.raises(RefusedError, match=r"it took more than 0\.3 s and was stopped") as error:
        asyncio.run(queue.render(forever, there))
    assert error.value.status == 422
    assert asyncio.run(queue.render(lambda: 3, there)) == 3
    assert time.monotonic() - began < 5
    queue.close()


def test_a_drawing_that_nobody_waits_for_is_given_up():
    async def gone():
        return True

    queue, began = RenderQueue(), time.monotonic()
    with pytest.raises(RefusedError):
        asyncio.run(queue.render(forever, gone))
    assert asyncio.run(queue.render(lambda: 3, there)) == 3
    assert time.monotonic() - began < 10
    queue.close()


def test_no_more_wait_than_there_is_room_for():
    queue, go = RenderQueue(max_waiting=1), threading.Event()

    async def run():
        two = [asyncio.create_task(queue.render(lambda: go.wait(10), there)) for _ in range(2)]
        await asyncio.sleep(0.05)
        with pytest.raises(RefusedError, match="2 files are being made already") as error:
            await queue.render(lambda: 3, there)
        go.set()
        assert await asyncio.gather(*two) == [True, True]
        return error.value.status

    assert asyncio.run(run()) == 503
    queue.close()
