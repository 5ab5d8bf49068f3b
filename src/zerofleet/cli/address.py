"""``--address HOST:PORT``."""

from __future__ import annotations

import re

from zerofleet.errors import ConfigError


def with_port(address: str | None) -> str | None:
    """The address as it was given, if it names a port.

    Raises:
        ConfigError: it does not; gRPC would take 443, where none of our services listens.
    """
    if address is None or address.startswith("unix:") or re.search(r":\d+$", address):
        return address
    raise ConfigError(f"--address {address}: give HOST:PORT, as `zerofleet status` names it")
