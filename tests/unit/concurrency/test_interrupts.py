"""The signal handlers: exact restore, nested use, and no signal that is slept through."""

from __future__ import annotations

import signal
import threading

from loopctl import CancelReason
from loopctl.concurrency import interrupts
from tests.unit.concurrency.programs import program


def test_a_ctrl_c_that_interrupts_no_wait_is_noticed_at_once() -> None:
    """One that lands in another thread, or just before the loop begins to wait, is not slept through."""
    done = program(
        """
        waited = []

        def press():
            time.sleep(0.2)  # the loop waits by now
            signal.pthread_kill(threading.get_ident(), signal.SIGINT)
            waited.append("pressed")
            time.sleep(5)
            waited.append("slept through")

        class Model:
            name = "slow"

            async def stream(self, request):
                threading.Thread(target=press, daemon=True).start()
                await asyncio.sleep(10)
                yield

        try:
            Agent(Model()).run_sync("go")
        except Cancelled as stop:
            print(stop.reason.origin, waited)
        """
    )
    assert done.stdout.strip() == "user ['pressed']", done.stderr


def test_what_removes_its_own_handler_does_not_take_the_wake_up_of_all_away() -> None:
    """Editors of input lines do that."""
    done = program(
        """
        async def main():
            loop = asyncio.get_running_loop()
            loop.add_signal_handler(signal.SIGWINCH, print)
            loop.remove_signal_handler(signal.SIGWINCH)
            woken = loop.create_future()
            signal.signal(signal.SIGUSR1, lambda *_: woken.set_result("woken"))

            def press():
                time.sleep(0.2)
                signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)
                time.sleep(5)
                print("slept through")

            threading.Thread(target=press, daemon=True).start()
            loop.call_later(10, print)
            print(await woken)

        before = signal.getsignal(signal.SIGURG), signal.set_wakeup_fd(-1)
        loopctl.run(main())
        assert (signal.getsignal(signal.SIGURG), signal.set_wakeup_fd(-1)) == before
        """
    )
    assert done.stdout.strip() == "woken", done.stderr


def test_handlers_are_counted_restored_exactly_and_the_hosts_is_still_called() -> None:
    """Case L1: installed on request only, nested installs counted, the host's own handler called and put back."""
    host: list[int] = []
    stops: list[tuple[str, CancelReason]] = []

    def handler(number: int, frame: object) -> None:
        host.append(number)

    original = signal.signal(signal.SIGINT, handler)
    try:
        with interrupts(lambda reason: stops.append(("outer", reason))):
            with interrupts(lambda reason: stops.append(("inner", reason))):
                signal.raise_signal(signal.SIGINT)
            assert signal.getsignal(signal.SIGINT) is not handler
            signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is handler
        signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, original)
    assert [name for name, _ in stops] == ["inner", "outer", "outer"]
    assert {reason.origin for _, reason in stops} == {"user"}
    assert host == [signal.SIGINT] * 3


def test_overlapping_installs_do_not_remove_each_others_handler() -> None:
    """Case L1: whichever of two parallel users leaves first, the other still hears the signal."""
    heard: list[str] = []
    first = interrupts(lambda _: heard.append("first"))
    second = interrupts(lambda _: heard.append("second"))
    before = signal.getsignal(signal.SIGTERM)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    signal.raise_signal(signal.SIGTERM)
    second.__exit__(None, None, None)
    assert heard == ["second"]
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_handler_that_the_host_installed_meanwhile_is_left_alone() -> None:
    original = signal.getsignal(signal.SIGTERM)

    def handler(number: int, frame: object) -> None:
        pass

    try:
        with interrupts(lambda _: None):
            signal.signal(signal.SIGTERM, handler)
        assert signal.getsignal(signal.SIGTERM) is handler
    finally:
        signal.signal(signal.SIGTERM, original)


def test_in_another_thread_nothing_is_installed() -> None:
    before = signal.getsignal(signal.SIGINT)
    seen: list[object] = []

    def work() -> None:
        with interrupts(lambda _: None):
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    """A shell starts a background job with SIGINT ignored, and means it."""
    original = signal.signal(signal.SIGINT, signal.SIG_IGN)
    stops: list[CancelReason] = []
    try:
        with interrupts(stops.append):
            signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, original)
    assert stops == []
