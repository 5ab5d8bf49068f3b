"""Write the generated pages of docs/reference.

    python scripts/reference                     every page
    python scripts/reference command run-file    two of them
    python scripts/reference --check             write nothing, exit 1 if a page is stale

The page of tables comes from a database: from ``--database-url``, which names one with our tables,
or from an embedded Postgres that is started for it.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "reference"
PAGES = {
    "cli": "command_page",
    "metrics": "metrics_page",
    "python": "python_page",
    "run-file": "run_file_page",
    "sql": "tables_page",
    "environment": "environment_page",
    "games": "games_page",
    "grpc": "rpc_page",
}
"""Module of each page."""


def main() -> int:
    """Write or compare pages and return the exit status of the process."""
    parser = argparse.ArgumentParser(description="Write the generated pages of docs/reference.")
    parser.add_argument("pages", nargs="*", metavar="PAGE", help=f"of {', '.join(PAGES)}")
    parser.add_argument("--check", action="store_true", help="write nothing, exit 1 if stale")
    parser.add_argument("--database-url", help="database for the page of tables")
    options = parser.parse_args()
    if unknown := [name for name in options.pages if name not in PAGES]:
        parser.error(f"there is no page {unknown[0]}: {', '.join(PAGES)}")
    stale = False
    for name in options.pages or PAGES:
        path = FOLDER / f"{name}.md"
        module = importlib.import_module(PAGES[name])
        page = module.render(options.database_url) if name == "sql" else module.render()
        if path.exists() and path.read_text(encoding="utf-8") == page:
            continue
        stale = True
        if options.check:
            print(f"docs/reference/{name}.md is stale: run make reference", file=sys.stderr)
        else:
            path.write_text(page, encoding="utf-8")
            print(f"written: docs/reference/{name}.md")
    return 1 if stale and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
