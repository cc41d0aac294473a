"""Owns what the providers say about HTTP without naming a library: the options, and how a transfer can fail."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

__all__ = ["FailureKind", "HttpOptions", "TransportFailure"]

FailureKind: TypeAlias = Literal["refused", "unresolved", "tls", "timeout", "unreachable", "broken"]
"""Nothing listens, no such host, no secure connection, no connection in time, no connection, or lost on the way."""


@dataclass(frozen=True, slots=True)
class HttpOptions:
    """How connections to a model's server are made and kept."""

    connect_timeout: float = 10.0
    """Seconds to wait for a connection. How long an answer may take is the engine's business (`RunConfig`)."""
    max_connections: int | None = None
    """Most connections at a time for each event loop; more requests wait. None: no limit."""
    max_idle_connections: int = 20
    """Most unused connections kept open for the next request."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Sent with each request."""


class TransportFailure(Exception):
    """No whole answer came. A provider words it as a `ModelError`; nobody else sees it."""

    def __init__(self, kind: FailureKind, detail: str) -> None:
        super().__init__(kind, detail)
        self.kind = kind
        self.detail = detail
