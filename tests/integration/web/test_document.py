"""The OpenAPI document is true: what it lists is there, and what is there it lists."""

from __future__ import annotations

import re

from starlette.routing import Route

from loopctl import Agent
from loopctl.testing import ScriptedModel
from loopctl.web import create_app
from tests.integration.web.served import body, served

UNLISTED = {"/openapi.json", "/", "/static/{path:path}"}


def test_the_document_lists_every_route_and_no_other():
    app = create_app(Agent(ScriptedModel("x")))
    there = {(route.path, method) for route in app.routes if isinstance(route, Route) for method in route.methods}
    there = {(path, method.lower()) for path, method in there if path not in UNLISTED and method != "HEAD"}
    with served(Agent(ScriptedModel("x"))) as server:
        document = server.client.get("/openapi.json").json()
    assert {(path, method) for path, found in document["paths"].items() for method in found} == there


def test_each_operation_answers_as_the_document_says():
    with served(Agent(ScriptedModel("x", "y"))) as server:
        document = server.client.get("/openapi.json").json()
        with server.run() as stream:
            stream.rest()
        names = {"run_id": "r", "session_id": "t", "call_id": "c"}
        for path, operations in document["paths"].items():
            for method, operation in operations.items():
                filled = re.sub(r"\{(\w+)\}", lambda found: names[found[1]], path)
                value = body(run="r2") if path == "/runs" and method == "post" else {}
                answer = server.client.request(method, filled, **({"json": value} if method == "post" else {}))
                assert str(answer.status_code) in operation["responses"], (path, method, answer.text)
                told = operation["responses"][str(answer.status_code)]["content"]
                assert answer.headers["content-type"].partition(";")[0] in told
                assert ("requestBody" in operation) == (method == "post")


def test_every_path_parameter_is_declared():
    with served(Agent(ScriptedModel("x"))) as server:
        document = server.client.get("/openapi.json").json()
    for path, operations in document["paths"].items():
        for operation in operations.values():
            declared = {one["name"] for one in operation["parameters"] if one["in"] == "path"}
            assert declared == set(re.findall(r"\{(\w+)\}", path))
    ids = [operation["operationId"] for found in document["paths"].values() for operation in found.values()]
    assert len(ids) == len(set(ids))
