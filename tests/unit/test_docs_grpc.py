"""What docs/grpc.md tells people to send is what the schema takes."""

import json
import re
from pathlib import Path

import pytest
from google.protobuf import json_format, message_factory

from zerofleet.rpc.schema import POOL

PAGE = Path(__file__).resolve().parents[2] / "docs" / "grpc.md"
ROW = re.compile(r"^\| `([\w.]+)/(\w+)` \| `(\{.*\})` \|$", re.MULTILINE)
CALLS = ROW.findall(PAGE.read_text(encoding="utf-8"))


def test_the_table_is_found() -> None:
    assert {f"{service}/{method}" for service, method, _ in CALLS} >= {
        f"zerofleet.v1.Player/{method}"
        for method in ("Describe", "Predict", "Search", "Analyze", "Play")
    }
    assert len(CALLS) == 9


@pytest.mark.parametrize(("service", "method", "text"), CALLS)
def test_its_json_is_a_request(service: str, method: str, text: str) -> None:
    descriptor = POOL.FindServiceByName(service).methods_by_name[method].input_type
    request = message_factory.GetMessageClass(descriptor)()
    json_format.Parse(text, request, descriptor_pool=POOL)
    assert json_format.MessageToDict(request).keys() == json.loads(text).keys()
