"""Compile ``proto/`` into ``src/zerofleet/rpc/schema``: a descriptor set and type stubs.

    python proto/generate.py            write both
    python proto/generate.py --types    write only the stubs, which are not kept in git
    python proto/generate.py --check    check whether the descriptor set is current (exit 1 if not)

No Python code is generated: ``zerofleet.rpc.schema`` builds the message classes from the
descriptor set, so the runtime's version of protobuf need not match the compiler's.
"""

import argparse
import importlib.resources
import sys
import tempfile
from pathlib import Path

from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent
TARGET = ROOT.parent / "src" / "zerofleet" / "rpc" / "schema"
SOURCES = ("open_inference.proto", "zerofleet/v1/player.proto", "externalscaler.proto")
DESCRIPTOR_SET = "zerofleet.binpb"


def compile_schema() -> dict[str, bytes]:
    """Return the content of every generated file by its name in ``TARGET``."""
    well_known = importlib.resources.files("grpc_tools") / "_proto"
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        status = protoc.main(
            [
                "protoc",
                f"--proto_path={ROOT}",
                f"--proto_path={well_known}",
                f"--descriptor_set_out={out / DESCRIPTOR_SET}",
                f"--pyi_out={out}",
                *SOURCES,
            ]
        )
        if status != 0:
            raise SystemExit(status)
        files = {DESCRIPTOR_SET: (out / DESCRIPTOR_SET).read_bytes()}
        for source in SOURCES:
            types = (out / source).with_name(f"{Path(source).stem}_pb2.pyi")
            files[f"{Path(source).stem}.pyi"] = _strict(types.read_bytes())
    return files


def _strict(types: bytes) -> bytes:
    """Give the compiler's bare ``Mapping`` the arguments that a strict type checker requires."""
    return types.replace(b"_Mapping]", b"_Mapping[str, object]]")


def main() -> int:
    """Write or check the generated files."""
    parser = argparse.ArgumentParser(description="Compile proto/ into zerofleet.rpc.schema.")
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument("--types", action="store_true", help="write only the type stubs")
    chosen.add_argument("--check", action="store_true", help="write nothing, exit 1 if stale")
    options = parser.parse_args()
    files = compile_schema()
    if options.check:
        fresh = (TARGET / DESCRIPTOR_SET).read_bytes() == files[DESCRIPTOR_SET]
        if not fresh:
            sys.stderr.write(f"{DESCRIPTOR_SET} is stale: run python proto/generate.py\n")
        return 0 if fresh else 1
    if options.types:
        del files[DESCRIPTOR_SET]
    for name, content in files.items():
        (TARGET / name).write_bytes(content)
    return 0


if __name__ == "__main__":
    sys.exit(main())
