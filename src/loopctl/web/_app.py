"""The application: everything put together, for a server of ours or to be mounted in a product's own."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.routing import Route

from loopctl.concurrency import check_count
from loopctl.driver import Agent
from loopctl.errors import StoreError, UsageError
from loopctl.web._answers import ApiError, on_api_error, on_fault, on_http_error, on_store_error
from loopctl.web._api import Api, Owner, Settings
from loopctl.web._conversations import Conversations
from loopctl.web._endpoints import endpoints, routes
from loopctl.web._guard import Guard
from loopctl.web._page import Page
from loopctl.web._run import Policy

__all__ = ["WebApp", "create_app"]

_MOST_BYTES = 1024 * 1024


class WebApp(Starlette):
    """An agent over HTTP; made by `create_app`."""

    _conversations: Conversations
    asks_who: bool
    """True if it has a token or owners: then it may be reached from elsewhere."""

    async def aclose(self) -> None:
        """Take no more runs, cancel those that go on (origin `shutdown`), and wait a bounded time for them; idempotent.

        A server of ours does it before it closes connections, and so does the application's own end. Where the
        application is mounted in another one, that one's end has to.

        Cancellation:
            Leaves the waits.
        """
        await self._conversations.aclose()

    def abandon(self) -> None:
        """Give what is being stopped no grace any more."""
        self._conversations.abandon()


def create_app(  # noqa: PLR0913 - what a product may want to set
    agent: Agent,
    *,
    store: str | os.PathLike[str] | None = None,
    on_disconnect: Policy = "cancel",
    token: str | None = None,
    owner: Owner | None = None,
    hosts: Iterable[str] | None = None,
    origins: Iterable[str] = (),
    max_runs: int = 256,
    max_events: int = 10_000,
    has_page: bool = True,
) -> WebApp:
    """Make the HTTP API of *agent*, and its page.

    Args:
        agent: What answers; with `approve=loopctl.web.approve` the clients are asked before calls that need it. Closing
            it is the caller's.
        store: As of `Agent.session`, for every conversation.
        on_disconnect: What becomes of a run when its last stream has gone: `cancel` it, or `detach`, which lets it go
            on to be joined again. A request may say otherwise.
        token: What everybody has to send, as `Authorization: Bearer`; None asks for none.
        owner: Says whose a request is; None is nobody's, which is refused. Each owner sees only what is its own.
        hosts: The names by which this server is asked. None is those of loopback, or any if there is a token or an
            owner.
        origins: Other origins whose pages may ask, such as `https://app.example.org`.
        max_runs: Runs that may go on at once; the next one is answered 429.
        max_events: Events that are kept of each run. A client that falls further behind loses its stream; the run goes
            on.
        has_page: True serves the page at `/`.

    Raises:
        UsageError: Something cannot be.
    """
    if token is not None and not token.strip():
        raise UsageError("token= is a text that is not empty; None asks for none")
    if on_disconnect not in {"cancel", "detach"}:
        raise UsageError(f"on_disconnect= is 'cancel' or 'detach', not {on_disconnect!r}")
    conversations = Conversations(
        agent, store, check_count("max_runs", max_runs), check_count("max_events", max_events)
    )
    api = Api(conversations, Settings(on_disconnect, owner, _MOST_BYTES))
    made = routes(endpoints(api))
    if has_page:
        page = Page()
        made += [Route("/", page.index, methods=["GET"]), Route("/static/{path:path}", page.static, methods=["GET"])]

    @asynccontextmanager
    async def lifespan(app: WebApp) -> AsyncIterator[None]:
        yield
        await app.aclose()

    app = WebApp(
        routes=made,
        middleware=[Middleware(Guard, token=token, has_owners=owner is not None, hosts=hosts, origins=tuple(origins))],
        exception_handlers={
            ApiError: on_api_error,
            HTTPException: on_http_error,
            StoreError: on_store_error,
            Exception: on_fault,
        },
        lifespan=lifespan,
    )
    app._conversations = conversations
    app.asks_who = token is not None or owner is not None
    return app
