"""The standard input and output of this process, for a protocol alone.

Rule: nothing but the protocol reaches the client. Meanwhile the descriptors 0 and 1 are the null device and stderr, so
that neither a tool that prints nor a process that it starts can speak or read there.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout

__all__ = ["own_stdio"]


@contextmanager
def own_stdio() -> Iterator[tuple[int, int]]:
    """Give descriptors for what is stdin and stdout of this process; whoever takes them closes them."""
    sys.stdout.flush()
    kept = os.dup(0), os.dup(1)  # not inherited by processes
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(2, 1)
    os.close(null)
    try:
        with redirect_stdout(sys.stderr):
            yield os.dup(kept[0]), os.dup(kept[1])
    finally:
        for standard, descriptor in enumerate(kept):
            os.set_blocking(descriptor, True)  # the duplicates may have been made otherwise, and share that
            os.dup2(descriptor, standard)
            os.close(descriptor)
