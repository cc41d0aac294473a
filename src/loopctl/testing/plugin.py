"""The pytest plug-in: virtual time for a test, the sweep as a fixture, a check for what a test leaves behind.

Rules: loaded by pytest in every project where loopctl is installed, so it imports nothing but pytest, and does nothing
to a test that does not ask for it.
"""

from __future__ import annotations

import gc
import inspect
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from loopctl.testing import Sweep

__all__ = ["cancel_everywhere", "no_leaks", "pytest_addoption", "pytest_configure"]

_MARK = "virtual_time"
_failed = pytest.StashKey[bool]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--thorough-sweeps`."""
    parser.getgroup("loopctl").addoption(
        "--thorough-sweeps",
        action="store_true",
        help="the fixture cancel_everywhere plays the full product of hands, sources and timings",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Make the markers known."""
    config.addinivalue_line(
        "markers", f"{_MARK}(limit=3600.0, **options): run this async test with loopctl.testing.virtual_run"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a marked test on virtual time."""
    mark = pyfuncitem.get_closest_marker(_MARK)
    if mark is None:
        return None
    test: Callable[..., Any] = pyfuncitem.obj
    if not inspect.iscoroutinefunction(test):
        pytest.fail(f"@pytest.mark.{_MARK} is for an async def: this one waits for nothing", pytrace=False)
    from loopctl.testing import virtual_run

    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    virtual_run(lambda: test(**arguments), *mark.args, **mark.kwargs)
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Note that a test failed: what its traceback holds is then no leak."""
    report = yield
    if report.failed:  # type: ignore[attr-defined]
        item.stash[_failed] = True
    return report


@pytest.fixture
def cancel_everywhere(request: pytest.FixtureRequest) -> Callable[..., Sweep]:
    """Give `loopctl.testing.cancel_everywhere`, which `--thorough-sweeps` makes thorough."""
    from loopctl.testing import cancel_everywhere as sweep

    is_thorough: bool = request.config.getoption("--thorough-sweeps")

    def play(scenario: Any, **options: Any) -> Sweep:
        return sweep(scenario, **{"is_thorough": is_thorough, **options})

    return play


@pytest.fixture
def no_leaks(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail the test if it leaves tasks, loops, threads, children, descriptors or signal handlers, or asyncio complains.

    `@pytest.mark.parametrize("no_leaks", [["threads"]], indirect=True)` says what is not looked at. A failed test is
    not looked at: its traceback keeps its frames, and they keep what they held.
    """
    from loopctl.testing import AsyncioErrors, Leaks

    with AsyncioErrors() as errors:
        was_frozen = gc.get_freeze_count() > 0
        gc.freeze()
        try:
            leaks = Leaks(allowed=getattr(request, "param", ()))
            yield
            left = [] if request.node.stash.get(_failed, False) else leaks.left()
        finally:
            if not was_frozen:
                gc.unfreeze()
    if request.node.stash.get(_failed, False):
        return
    left += [f"asyncio logged: {message}" for message in errors.messages]
    if left:
        pytest.fail("the test left something behind:\n  " + "\n  ".join(left), pytrace=False)
