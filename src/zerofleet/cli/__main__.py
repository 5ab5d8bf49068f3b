"""``python -m zerofleet.cli`` is ``zerofleet``."""

from zerofleet.cli import main

main()
