"""The committed schema is fresh, and wire-compatible with the standard's own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2
from tritonclient.grpc import model_config_pb2, service_pb2

from zerofleet.rpc.schema import POOL, open_inference, player, service

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_generated_files_are_fresh() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "proto" / "generate.py", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def _messages(file: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    todo = list(file.message_types_by_name.values())
    while todo:
        message = todo.pop()
        found[message.full_name] = message
        todo += message.nested_types
    return found


def _kind(field: Any) -> tuple[Any, ...]:
    named = field.message_type or field.enum_type
    oneof = field.containing_oneof
    return (
        field.name,
        field.number,
        field.type,
        field.is_repeated,
        named.full_name if named else None,
        oneof.name if oneof else None,
    )


def test_every_field_is_the_standards() -> None:
    ours = _messages(POOL.FindFileByName("open_inference.proto"))
    theirs = _messages(service_pb2.DESCRIPTOR) | _messages(model_config_pb2.DESCRIPTOR)
    assert len(ours) > 30
    for name, message in ours.items():
        for field in message.fields:
            standard = theirs[name].fields_by_name.get(field.name)
            assert standard is not None, f"{name}.{field.name} is not of the standard"
            assert _kind(field) == _kind(standard)


def test_every_enum_value_is_the_standards() -> None:
    file = POOL.FindFileByName("open_inference.proto")
    theirs = model_config_pb2.DESCRIPTOR
    for name, enum in file.enum_types_by_name.items():
        values = {value.name: value.number for value in enum.values}
        standard = theirs.enum_types_by_name[name]
        assert values == {value.name: value.number for value in standard.values}


def test_every_method_is_the_standards() -> None:
    standard = service_pb2.DESCRIPTOR.services_by_name["GRPCInferenceService"]
    ours = service("inference.GRPCInferenceService")
    assert len(ours.methods) == 10
    for method in ours.methods:
        other = standard.methods_by_name[method.name]
        assert method.input_type.full_name == other.input_type.full_name
        assert method.output_type.full_name == other.output_type.full_name
        assert method.client_streaming == other.client_streaming
        assert method.server_streaming == other.server_streaming


def test_a_message_of_the_stock_client_reads_the_same() -> None:
    theirs = service_pb2.ModelInferRequest(model_name="go", model_version="3", id="x")
    theirs.inputs.add(name="observation", datatype="UINT8", shape=[2, 4])
    theirs.parameters["timeout"].int64_param = 5
    theirs.raw_input_contents.append(bytes(8))
    ours = open_inference.ModelInferRequest.FromString(theirs.SerializeToString())
    assert str(ours) == str(theirs)


def test_nothing_of_ours_is_in_the_default_pool() -> None:
    assert open_inference.ModelInferRequest is not service_pb2.ModelInferRequest
    assert player.PlayRequest.DESCRIPTOR.file.pool is POOL
    file = descriptor_pb2.FileDescriptorProto()
    player.PlayRequest.DESCRIPTOR.file.CopyToProto(file)
    assert file.package == "zerofleet.v1"
