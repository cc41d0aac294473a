"""An agent over HTTP: runs as streams of AG-UI events, their stops, and a page. Extra `web`.

Rules: a client's slowness is its own; what becomes of a run whose clients have gone is a policy, and is never taken for
a stop by a person; an answer says what is so.

Source: the AG-UI protocol 1.0; the package `ag-ui-protocol`.
"""

from loopctl.web._app import WebApp, create_app
from loopctl.web._run import approve
from loopctl.web._serve import serve

__all__ = ["WebApp", "approve", "create_app", "serve"]
