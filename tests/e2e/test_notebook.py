"""The notebook of the tutorials runs from top to bottom, and is committed with its outputs.

After a change: ``jupyter execute --inplace docs/tutorials/how_it_works.ipynb``.
"""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parents[2] / "docs" / "tutorials" / "how_it_works.ipynb"
LARGEST = 400_000  # bytes

pytestmark = [pytest.mark.slow, pytest.mark.fleet]


def test_every_cell_runs() -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    client = NotebookClient(notebook, timeout=300, resources={"metadata": {"path": "."}})
    client.execute()  # raises with the traceback of a cell that fails


def test_it_is_committed_as_it_ran() -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    outputs = [output for cell in code for output in cell.outputs]
    assert {output.output_type for output in outputs} <= {
        "display_data",
        "execute_result",
        "stream",
    }
    assert sum("image/png" in output.get("data", {}) for output in outputs) >= 6
    assert NOTEBOOK.stat().st_size < LARGEST
