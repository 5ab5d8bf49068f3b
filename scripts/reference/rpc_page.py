"""The gRPC interface: services and messages with the comments of the ``.proto`` files."""

from __future__ import annotations

import importlib.resources
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
)
from grpc_tools import protoc
from markdown_text import anchor, cell, inline, joined, table

FOLDER = Path(__file__).resolve().parents[2] / "proto"
HEAD = """# gRPC

The inference service answers two gRPC services on one port.
`zerofleet.v1.Player` takes positions of a game; `inference.GRPCInferenceService` takes tensors.
KEDA asks the autoscaler by `externalscaler.ExternalScaler`.
[gRPC clients](../how-to/clients.md) has examples.
This page is generated from `proto/` by `scripts/reference`.
"""
OPEN_INFERENCE = """The messages follow the [Open Inference Protocol](https://github.com/kserve/open-inference-protocol), version 2.
The input is `observation`, UINT8 with a row of packed planes for each position.
The outputs are `policy_logits`, FP16, and `value`, FP32.
Tensors travel as raw bytes only: row-major and little-endian.
"""
SCALER = """The messages follow [KEDA's external scalers](https://keda.sh/docs/latest/concepts/external-scalers/).
"""


class Source(NamedTuple):
    """A file of ``proto/``; ``words`` replace the messages of a public standard."""

    path: str
    words: str = ""


SOURCES = (
    Source("zerofleet/v1/player.proto"),
    Source("open_inference.proto", OPEN_INFERENCE),
    Source("externalscaler.proto", SCALER),
)


def render() -> str:
    """Return the page: each service with its methods, and the messages that are ours."""
    parts = [HEAD]
    for source in SOURCES:
        described = Described(parsed(source.path))
        parts += [*described.services(), source.words or joined(described.messages())]
    return joined(parts)


def parsed(path: str) -> FileDescriptorProto:
    """Return a file of ``proto/`` with its comments."""
    well_known = importlib.resources.files("grpc_tools") / "_proto"
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "set"
        paths = [f"--proto_path={FOLDER}", f"--proto_path={well_known}"]
        options = ["--include_source_info", f"--descriptor_set_out={out}"]
        if protoc.main(["protoc", *paths, *options, path]) != 0:
            raise SystemExit(1)
        return FileDescriptorSet.FromString(out.read_bytes()).file[0]


class Described:
    """A file of ``proto/`` as parts of a page."""

    def __init__(self, file: FileDescriptorProto) -> None:
        self._file = file
        self._comments = {
            tuple(each.path): inline(each.leading_comments or each.trailing_comments)
            for each in file.source_code_info.location
        }
        self._ours = {f".{file.package}.{message.name}" for message in file.message_type}

    def services(self) -> Iterator[str]:
        """Yield a section with a table of methods for each service."""
        for number, service in enumerate(self._file.service):
            yield f"## {self._file.package}.{service.name}\n"
            rows: list[tuple[str, str, str, str]] = []
            for index, method in enumerate(service.method):
                comment = self._comments.get((6, number, 2, index), "")
                asked = self._message(method.input_type, streams=method.client_streaming)
                answered = self._message(method.output_type, streams=method.server_streaming)
                rows.append((f"`{method.name}`", asked, answered, cell(comment)))
            yield table(("Method", "Request", "Response", "Meaning"), rows)

    def messages(self) -> Iterator[str]:
        """Yield a section with a table of fields for each message."""
        for number, message in enumerate(self._file.message_type):
            yield f"### {message.name}\n"
            yield self._comments.get((4, number), "") or ""
            yield self._fields(number, message) or "It has no fields.\n"

    def _fields(self, number: int, message: DescriptorProto) -> str:
        return table(
            ("Field", "Number", "Type", "Meaning"),
            (
                (
                    f"`{each.name}`",
                    str(each.number),
                    self._type(each),
                    cell(self._comments.get((4, number, 2, index))),
                )
                for index, each in enumerate(message.field)
            ),
        )

    def _type(self, field: FieldDescriptorProto) -> str:
        if field.type == FieldDescriptorProto.TYPE_MESSAGE:
            kind = self._message(field.type_name, streams=False)
        else:
            name = FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()
            kind = f"`{name}`"
        if field.label == FieldDescriptorProto.LABEL_REPEATED:
            return f"repeated {kind}"
        return f"optional {kind}" if field.proto3_optional else kind

    def _message(self, full: str, *, streams: bool) -> str:
        name = full.rpartition(".")[2]
        is_listed = self._file.package == "zerofleet.v1" and full in self._ours
        shown = f"[`{name}`](#{anchor(name)})" if is_listed else f"`{name}`"
        return f"stream of {shown}" if streams else shown
