"""Which gRPC targets stay on this machine; whatever is not known to, does not."""

import pytest

from zerofleet.errors import ConfigError
from zerofleet.rpc.tls import is_local, require_target

LOCAL = [
    *("127.0.0.1:8001", "127.9.9.9:1", "localhost:8001", "localhost", "[::1]:8001", "::1"),
    *("unix:/run/x", "unix:///run/x", "unix-abstract:x", "dns:localhost:8001"),
    *("dns:///127.0.0.1:8001", "dns://8.8.8.8/localhost:1", "ipv4:127.0.0.1:1,127.0.0.2:2"),
    *("ipv6:[::1]:8001", "passthrough:///localhost:8001"),
]
ELSEWHERE = [
    *("0.0.0.0:8001", "[::]:8001", ":8001", "*:8001", "10.0.0.5:8001", "inference:8001"),
    *("dns:///inference.fleet:8001", "ipv4:127.0.0.1:1,10.0.0.5:2", "ipv6:[2001:db8::1]:1"),
    *("localhost.evil.example:1", "127.0.0.1.evil.example:1", "xds:///service", "[::ffff:a00:5]:1"),
    *("dns://127.0.0.1/inference:1", "vsock:2:1", "", "128.0.0.1:1", "inference"),
]


@pytest.mark.parametrize("target", LOCAL)
def test_local(target: str) -> None:
    assert is_local(target)


@pytest.mark.parametrize("target", ELSEWHERE)
def test_elsewhere(target: str) -> None:
    assert not is_local(target)


@pytest.mark.parametrize(
    "target", [*LOCAL, *filter(None, ELSEWHERE), "unix:/a b/c", "127.0.0.1:065535", "h:http"]
)
def test_targets_that_grpc_understands(target: str) -> None:
    require_target(target)


@pytest.mark.parametrize(
    "target",
    [
        *("127.0.0.1:65536", "127.0.0.1:99999999", f"h:{'9' * 5000}", "[::1]:70000"),
        *(
            "",
            "127.0.0.1:1\n",
            "a\0b:1",
            "a b:1",
            "unix:a\0b",
            "dns:///h:65536",
            "ipv4:a:1,b:65536",
        ),
    ],
)
def test_targets_that_grpc_would_read_as_something_else(target: str) -> None:
    with pytest.raises(ConfigError, match="is not an address"):
        require_target(target)
