"""KEDA's protocol: names, numbers and types are its own, and so are the bytes."""

from __future__ import annotations

import struct

import pytest
from google.protobuf.descriptor import FieldDescriptor

from zerofleet.rpc.schema import POOL, service
from zerofleet.rpc.schema import externalscaler as pb

TEXT, BOOL, INT64, DOUBLE, MESSAGE = (
    getattr(FieldDescriptor, f"TYPE_{name}")
    for name in ("STRING", "BOOL", "INT64", "DOUBLE", "MESSAGE")
)
FIELDS = {
    "ScaledObjectRef": {
        "name": (1, TEXT),
        "namespace": (2, TEXT),
        "scalerMetadata": (3, MESSAGE),
    },
    "IsActiveResponse": {"result": (1, BOOL)},
    "GetMetricSpecResponse": {"metricSpecs": (1, MESSAGE)},
    "MetricSpec": {
        "metricName": (1, TEXT),
        "targetSize": (2, INT64),
        "targetSizeFloat": (3, DOUBLE),
    },
    "GetMetricsRequest": {"scaledObjectRef": (1, MESSAGE), "metricName": (2, TEXT)},
    "GetMetricsResponse": {"metricValues": (1, MESSAGE)},
    "MetricValue": {
        "metricName": (1, TEXT),
        "metricValue": (2, INT64),
        "metricValueFloat": (3, DOUBLE),
    },
}
METHODS = {
    "IsActive": ("ScaledObjectRef", "IsActiveResponse", False),
    "StreamIsActive": ("ScaledObjectRef", "IsActiveResponse", True),
    "GetMetricSpec": ("ScaledObjectRef", "GetMetricSpecResponse", False),
    "GetMetrics": ("GetMetricsRequest", "GetMetricsResponse", False),
    "StreamMetricSpec": ("ScaledObjectRef", "GetMetricSpecResponse", True),
}


@pytest.mark.parametrize("name", FIELDS)
def test_every_field_is_kedas(name: str) -> None:
    message = POOL.FindMessageTypeByName(f"externalscaler.{name}")
    assert {each.name: (each.number, each.type) for each in message.fields} == FIELDS[name]


def test_every_method_is_kedas() -> None:
    found = {
        each.name: (each.input_type.name, each.output_type.name, each.server_streaming)
        for each in service("externalscaler.ExternalScaler").methods
    }
    assert found == METHODS


def test_a_value_is_the_bytes_that_keda_reads() -> None:
    value = pb.MetricValue(metricName="m", metricValue=18, metricValueFloat=18.0)
    inner = b"\x0a\x01m" + b"\x10\x12" + b"\x19" + struct.pack("<d", 18.0)
    expected = b"\x0a" + bytes([len(inner)]) + inner
    assert pb.GetMetricsResponse(metricValues=[value]).SerializeToString() == expected


def test_a_trigger_is_read_from_the_bytes_that_keda_sends() -> None:
    entry = b"\x0a\x04role\x12\x08selfplay"
    content = b"\x0a\x01o\x12\x01n" + b"\x1a" + bytes([len(entry)]) + entry
    found = pb.ScaledObjectRef.FromString(content)
    assert (found.name, found.namespace, dict(found.scalerMetadata)) == (
        "o",
        "n",
        {"role": "selfplay"},
    )
