"""The notebooks of the documentation run from top to bottom and are committed with their outputs.

After a change run ``jupyter execute --inplace NAME.ipynb``, for read_games.ipynb in an empty
folder.
"""

import os
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

DOCS = Path(__file__).parents[2] / "docs"
NOTEBOOKS = {"tutorials/how_it_works.ipynb": 6, "how-to/read_games.ipynb": 3}
"""Minimum number of pictures of each notebook."""
LARGEST = 400_000  # bytes
PICTURES = {"image/png", "image/svg+xml"}

pytestmark = [pytest.mark.slow, pytest.mark.fleet, pytest.mark.timeout(3600)]


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_every_cell_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The cells call the commands of this environment.
    programs = Path(sys.executable).parent
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    notebook = nbformat.read(DOCS / name, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=900,  # seconds for each cell; the machine may be busy
        startup_timeout=300,
        resources={"metadata": {"path": str(tmp_path)}},
    )
    client.execute()  # raises with the traceback of a failing cell


@pytest.mark.parametrize(("name", "pictures"), NOTEBOOKS.items())
def test_it_is_committed_as_it_ran(name: str, pictures: int) -> None:
    notebook = nbformat.read(DOCS / name, as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    outputs = [output for cell in code for output in cell.outputs]
    assert {output.output_type for output in outputs} <= {
        "display_data",
        "execute_result",
        "stream",
    }
    assert sum(bool(PICTURES & output.get("data", {}).keys()) for output in outputs) >= pictures
    assert (DOCS / name).stat().st_size < LARGEST
