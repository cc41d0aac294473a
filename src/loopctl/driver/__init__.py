"""The asyncio driver: agents, sessions, runs, and the loop that performs what the brain decides."""

from loopctl.driver._agent import Agent
from loopctl.driver._config import RunConfig
from loopctl.driver._handle import RunHandle
from loopctl.driver._models import resolve_model
from loopctl.driver._session import Session

__all__ = ["Agent", "RunConfig", "RunHandle", "Session", "resolve_model"]
