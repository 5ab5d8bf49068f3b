"""JSON schemas of the kinds that operators bring, from ``operator_kinds.yaml``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

Schema = dict[str, Any]

_TYPES: dict[str, Schema] = {
    "text": {"type": "string", "minLength": 1},
    "flag": {"type": "boolean"},
    "texts": {"type": "object", "minProperties": 1, "additionalProperties": {"type": "string"}},
}


def _schema(shape: Any) -> Schema:
    if isinstance(shape, list):
        return {"type": "array", "minItems": 1, "uniqueItems": True, "items": _schema(shape[0])}
    if isinstance(shape, dict):
        required = [key for key in shape if not key.endswith("?")]
        return {
            "type": "object",
            "additionalProperties": False,
            "properties": {key.rstrip("?"): _schema(each) for key, each in shape.items()},
            "required": required,
            **({} if required or not shape else {"minProperties": 1, "maxProperties": 1}),
        }
    if found := re.fullmatch(r"(\d+)\.\.(\d*)", shape):
        return {
            "type": "integer",
            "minimum": int(found[1]),
            **({"maximum": int(found[2])} if found[2] else {}),
        }
    return _TYPES.get(shape, {"type": "string", "pattern": f"^({shape})$"})


def _kind(kind: str, shape: Schema) -> Schema:
    name = "[a-z0-9]([a-z0-9.-]*[a-z0-9])?"
    metadata = {"name": name, "namespace": "text", "labels?": "texts", "annotations?": "texts"}
    return _schema({"kind": kind, "metadata": metadata, **shape})


SCHEMAS: dict[str, Schema] = {
    kind: _kind(kind, shape)
    for kind, shape in yaml.safe_load(
        (Path(__file__).parent / "operator_kinds.yaml").read_text()
    ).items()
}
