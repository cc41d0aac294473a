"""What a tool's context needs of a ledger; `loopctl.store` has one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from loopctl.cancel import CancelToken

__all__ = ["EffectLedger"]


class EffectLedger(Protocol):
    """Remembers what was done, over crashes too."""

    def once(
        self,
        key: str,
        function: Callable[[], Any],
        *,
        token: CancelToken,
        by: str,
        check_open: Callable[[], None],
    ) -> Any:
        """Do something at most once.

        Args:
            key: What is done.
            function: Does it.
            token: Ends a wait.
            by: Who does it, for a person to read.
            check_open: Raises if nothing may be begun any more.
        """
