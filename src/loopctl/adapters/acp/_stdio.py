"""Takes stdin and stdout for the protocol.

Rule: nothing but the protocol reaches the client. While the block runs, descriptor 1 leads to stderr and descriptor 0
to nothing, so that neither a tool that prints nor a process that it starts can speak or read there.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import BinaryIO

__all__ = ["standard_streams"]


@contextmanager
def standard_streams() -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """Give streams of their own for what is stdin and stdout of this process."""
    sys.stdout.flush()
    own_input, own_output = os.dup(0), os.dup(1)  # not inherited by processes
    nothing = os.open(os.devnull, os.O_RDONLY)
    was_input, was_output = os.dup(0), os.dup(1)
    try:
        os.dup2(nothing, 0)
        os.dup2(2, 1)
        with redirect_stdout(sys.stderr):
            yield os.fdopen(own_input, "rb", buffering=0), os.fdopen(own_output, "wb", buffering=0)
    finally:
        os.dup2(was_input, 0)
        os.dup2(was_output, 1)
        for descriptor in (nothing, was_input, was_output):
            os.close(descriptor)
