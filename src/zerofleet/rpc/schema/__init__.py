"""The message classes of ``proto/``, built at import from the committed descriptor set.

They live in a descriptor pool of their own: other libraries that bring the same protocol (such as
tritonclient) register the same names in the default pool, and one pool may hold a name once.
"""

from importlib import resources
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import ServiceDescriptor
from grpc_health.v1 import health_pb2

POOL = descriptor_pool.DescriptorPool()


def _load() -> None:
    content = (resources.files(__name__) / "zerofleet.binpb").read_bytes()
    for file in descriptor_pb2.FileDescriptorSet.FromString(content).file:
        POOL.Add(file)
    # Reflection reads one pool, and the health service is on the same port.
    POOL.AddSerializedFile(health_pb2.DESCRIPTOR.serialized_pb)


def file_symbols(file_name: str) -> dict[str, Any]:
    """Top-level message classes and enum values of one ``.proto`` file, by name."""
    file = POOL.FindFileByName(file_name)
    symbols: dict[str, Any] = {
        name: message_factory.GetMessageClass(descriptor)
        for name, descriptor in file.message_types_by_name.items()
    }
    for enum in file.enum_types_by_name.values():
        symbols |= {value.name: value.number for value in enum.values}
    return symbols


def service(full_name: str) -> ServiceDescriptor:
    """The descriptor of a service, such as ``inference.GRPCInferenceService``."""
    return POOL.FindServiceByName(full_name)


_load()
