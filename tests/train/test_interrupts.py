import os
import signal
import threading

import pytest

from regard.train.interrupts import catch_signals


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_is_a_wish(number):
    with catch_signals() as asked:
        assert not asked
        os.kill(os.getpid(), number)
        assert asked


def test_a_second_ctrl_c_is_a_keyboard_interrupt():
    with pytest.raises(KeyboardInterrupt), catch_signals():
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)


def test_a_second_sigterm_is_the_same_wish():
    with catch_signals() as asked:
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
        assert asked


def test_the_handlers_are_what_they_were_before_also_after_an_error():
    before = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)]
    with pytest.raises(ZeroDivisionError), catch_signals():
        assert signal.getsignal(signal.SIGINT) is not before[0]
        raise ZeroDivisionError
    assert [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)] == before


def test_another_thread_changes_nothing():
    found, before = [], signal.getsignal(signal.SIGINT)

    def inside():
        with catch_signals() as asked:
            found.append((bool(asked), signal.getsignal(signal.SIGINT)))

    thread = threading.Thread(target=inside)
    thread.start()
    thread.join()
    assert found == [(False, before)]
