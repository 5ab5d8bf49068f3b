"""The requests in docs/how-to/clients.md fit the schema."""

import json
import re
from pathlib import Path

import pytest
from google.protobuf import json_format, message_factory

from zerofleet.rpc.schema import POOL

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "how-to" / "clients.md").read_text(
    encoding="utf-8"
)
ROW = re.compile(r"^\| `([\w.]+)/(\w+)` \| `(\{.*\})` \|$", re.MULTILINE)
CALLS = ROW.findall(PAGE)


def test_every_row_of_the_table_is_found() -> None:
    assert {f"{service}/{method}" for service, method, _ in CALLS} >= {
        f"zerofleet.v1.Player/{method}"
        for method in ("Describe", "Predict", "Search", "Analyze", "Play")
    }
    table = PAGE.partition("| Call | JSON |\n|---|---|\n")[2].partition("\n\n")[0]
    assert len(CALLS) == len(table.splitlines())


@pytest.mark.parametrize(("service", "method", "text"), CALLS)
def test_its_json_is_a_request(service: str, method: str, text: str) -> None:
    descriptor = POOL.FindServiceByName(service).methods_by_name[method].input_type
    request = message_factory.GetMessageClass(descriptor)()
    json_format.Parse(text, request, descriptor_pool=POOL)
    assert json_format.MessageToDict(request).keys() == json.loads(text).keys()
