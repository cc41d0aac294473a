"""JSON Schema as pydantic writes it, made plain enough for every model server.

What changes, and who needs it:

- only the keywords of `_KEPT` stay: titles are noise that costs tokens, `discriminator` is OpenAPI and would point at
  `$defs` that are gone, and `uniqueItems`, `propertyNames`, `not` stop the grammar compilers of llama.cpp.
- `$defs` are put where they are referred to, except those that refer to themselves: small models follow no references.
- `oneOf` becomes `anyOf`, a tuple's `prefixItems` get an `items` beside them (OpenAI refuses an array without), and
  patterns without anchors or with look-around and formats that a grammar compiler does not know go.
- bounds and defaults that JSON cannot hold (infinity, NaN) go.

The arguments are still validated against the real types.

Source: OpenAI's function schemas; llama.cpp's json-schema-to-grammar and llguidance, which refuse the whole request.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["plain_schema"]

_NAMED = frozenset({"properties", "patternProperties"})
"""Keywords that hold schemas by name."""
_NESTED = frozenset({"additionalProperties", "items", "prefixItems", "anyOf", "allOf"})
"""Keywords that hold a schema, or a list of them."""
_KEPT = _NAMED | _NESTED | {
    "$ref", "const", "default", "deprecated", "description", "enum", "examples", "exclusiveMaximum", "exclusiveMinimum",
    "maxItems", "maxLength", "maxProperties", "maximum", "minItems", "minLength", "minProperties", "minimum",
    "multipleOf", "required", "type",
}  # fmt: skip
_FORMATS = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid", "uri"})
_PREFIX = "#/$defs/"


def plain_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Give *schema* in the plain form; *schema* is not changed."""
    definitions: dict[str, Any] = dict(schema.get("$defs", {}))
    recursive = {name for name in definitions if _refers_to_itself(name, definitions)}
    inlined = {name: body for name, body in definitions.items() if name not in recursive}
    plain: dict[str, Any] = _plain({key: value for key, value in schema.items() if key != "$defs"}, inlined)
    if recursive:
        plain["$defs"] = {name: _plain(definitions[name], inlined) for name in definitions if name in recursive}
    return plain


def _plain(schema: Any, inlined: Mapping[str, Any]) -> Any:
    if not isinstance(schema, Mapping):  # `true`: anything
        return {}
    target = schema.get("$ref", "").removeprefix(_PREFIX)
    if target in inlined:
        siblings = {key: value for key, value in schema.items() if key != "$ref"}
        return _plain({**inlined[target], **siblings}, inlined)
    plain: dict[str, Any] = {}
    for keyword, value in schema.items():
        key = "anyOf" if keyword == "oneOf" else keyword
        if _is_kept(key, value):
            plain[key] = _plain_value(key, value, inlined)
    if "prefixItems" in plain and "items" not in plain:
        plain["items"] = _any_of(plain["prefixItems"])
    return plain


def _is_kept(key: str, value: Any) -> bool:
    if key == "pattern":
        return value.startswith("^") and value.endswith("$") and "(?" not in value
    if key == "format":
        return value in _FORMATS
    return key in _KEPT and (key in _NAMED | _NESTED or _is_json(value))


def _is_json(value: Any) -> bool:
    """Refuse what pydantic lets through and no server reads: NaN, infinities, lone surrogates."""
    try:
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError):
        return False
    return True


def _plain_value(key: str, value: Any, inlined: Mapping[str, Any]) -> Any:
    if key in _NAMED:
        return {name: _plain(body, inlined) for name, body in value.items()}
    if key in _NESTED and isinstance(value, list):
        return [_plain(item, inlined) for item in value]
    if key in _NESTED and isinstance(value, Mapping):
        return _plain(value, inlined)
    return value


def _any_of(schemas: list[dict[str, Any]]) -> dict[str, Any]:
    different: list[dict[str, Any]] = []
    for schema in schemas:
        if schema not in different:
            different.append(schema)
    return different[0] if len(different) == 1 else {"anyOf": different}


def _refers_to_itself(name: str, definitions: Mapping[str, Any]) -> bool:
    """Tell whether the definition *name* refers to itself, also by way of others."""
    seen: set[str] = set()
    waiting = list(_references(definitions[name]))
    while waiting:
        found = waiting.pop()
        if found not in seen:
            seen.add(found)
            waiting.extend(_references(definitions.get(found, {})))
    return name in seen


def _references(value: Any) -> Iterator[str]:
    """Give the names of the `$defs` that *value* refers to."""
    if isinstance(value, Mapping):
        target = value.get("$ref")
        if isinstance(target, str) and target.startswith(_PREFIX):
            yield target.removeprefix(_PREFIX)
        for child in value.values():
            yield from _references(child)
    elif isinstance(value, list):
        for child in value:
            yield from _references(child)
