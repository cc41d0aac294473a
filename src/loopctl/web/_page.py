"""The page: its files, read anew at each request, and what a browser may do with them.

Rule: only what was in the folder when the application was made is served, whatever a path says.
"""

from __future__ import annotations

from mimetypes import guess_type
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from loopctl.web._answers import ApiError

__all__ = ["Page"]

_FOLDER = Path(__file__).with_name("page")
_INDEX = "index.html"
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-cache",
}


class Page:
    """Serves the page."""

    def __init__(self, folder: Path = _FOLDER) -> None:
        """Serve what is in *folder*."""
        found = [path for path in folder.rglob("*") if path.is_file()]
        self._files = {path.relative_to(folder).as_posix(): path for path in found}

    async def index(self, request: Request) -> Response:
        """Give the page itself.

        Cancellation:
            Never waits.
        """
        del request
        return self._give(_INDEX)

    async def static(self, request: Request) -> Response:
        """Give what the page asks for.

        Cancellation:
            Never waits.
        """
        return self._give(request.path_params["path"])

    def _give(self, name: str) -> Response:
        path = self._files.get(name)
        if path is None:
            raise ApiError(404, "not_found", "the page has no such file")
        return Response(path.read_bytes(), 200, _HEADERS, guess_type(name)[0] or "application/octet-stream")
