"""The checker of tools: is this one safe to abandon? Its front door is `loopctl.testing`."""

from loopctl.testing.abandon._check import AbandonFailed, AbandonMode, CheckOptions, abandon_everywhere, check_abandon
from loopctl.testing.abandon._report import AbandonReport, Finding

__all__ = [
    "AbandonFailed",
    "AbandonMode",
    "AbandonReport",
    "CheckOptions",
    "Finding",
    "abandon_everywhere",
    "check_abandon",
]
