"""``python -m zerofleet.secrets DIR``: make all secrets of one fleet; existing ones stay."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from zerofleet.errors import ConfigError
from zerofleet.secrets.fleet_secrets import FleetSecrets

_MODES = {"400": 0o400, "440": 0o440}


def main() -> int:
    """Make what is missing, print its names, and return the exit status of the process."""
    parser = argparse.ArgumentParser(prog="python -m zerofleet.secrets", description=__doc__)
    parser.add_argument("folder", type=Path, metavar="DIR", help="made if absent")
    parser.add_argument(
        "--host",
        action="append",
        default=[],
        metavar="NAME",
        help="another DNS name or IP address of the servers, for clients; may be repeated",
    )
    parser.add_argument(
        "--mode",
        choices=_MODES,
        default="440",
        help="mode of the files: whether their group may read them",
    )
    chosen = parser.parse_args()
    fleet = FleetSecrets(chosen.folder, chosen.host, _MODES[chosen.mode])
    try:
        fleet.make()
    except ConfigError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    for name in fleet.made:
        sys.stdout.write(f"made {name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
