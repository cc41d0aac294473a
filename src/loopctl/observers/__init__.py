"""Who watches runs: how observers are told, and the two that ship. An observer sees; middleware may change."""

from loopctl.observers._logging import LoggingObserver
from loopctl.observers._notify import Observer, Observers, check_observers, notify
from loopctl.observers._otel import OpenTelemetryObserver

__all__ = ["LoggingObserver", "Observer", "Observers", "OpenTelemetryObserver", "check_observers", "notify"]
