"""What model servers accept of a JSON Schema, as one check that tests share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["complaints"]

KNOWN = {
    "$defs", "$ref", "additionalProperties", "allOf", "anyOf", "const", "default", "deprecated", "description", "enum",
    "examples", "exclusiveMaximum", "exclusiveMinimum", "format", "items", "maxItems", "maxLength", "maxProperties",
    "maximum", "minItems", "minLength", "minProperties", "minimum", "multipleOf", "pattern", "patternProperties",
    "prefixItems", "properties", "required", "type",
}  # fmt: skip
FORMATS = {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid", "uri"}


def complaints(schema: Mapping[str, Any]) -> list[str]:
    """Say what a server would refuse in the schema of a tool's arguments; empty if nothing."""
    found = [] if schema.get("type") == "object" and "properties" in schema else ["OpenAI: not an object"]
    _look(schema, "", schema.get("$defs", {}), found)
    return found


def _look(schema: Mapping[str, Any], where: str, definitions: Mapping[str, Any], found: list[str]) -> None:
    found += [f"{where}: llguidance does not know {key}" for key in schema.keys() - KNOWN]
    if schema.get("type") == "array" and "items" not in schema:
        found.append(f"{where}: OpenAI wants items")
    if schema.get("format", "date") not in FORMATS:
        found.append(f"{where}: llguidance does not know the format {schema['format']}")
    pattern = schema.get("pattern", "^$")
    if not (pattern.startswith("^") and pattern.endswith("$")) or "(?" in pattern:
        found.append(f"{where}: llama.cpp cannot read the pattern {pattern}")
    if "$ref" in schema and schema["$ref"].removeprefix("#/$defs/") not in definitions:
        found.append(f"{where}: {schema['$ref']} leads nowhere")
    for keyword in ("properties", "patternProperties", "$defs"):
        for name, child in schema.get(keyword, {}).items():
            _look(child, f"{where}/{keyword}/{name}", definitions, found)
    for keyword in ("items", "additionalProperties", "anyOf", "allOf", "prefixItems"):
        children = schema.get(keyword, [])
        for child in children if isinstance(children, list) else [children]:
            if isinstance(child, Mapping):
                _look(child, f"{where}/{keyword}", definitions, found)
