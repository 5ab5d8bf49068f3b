"""The generated pages of the reference are fresh and complete."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "reference"
SCRIPT = ROOT / "scripts" / "reference"


def test_the_pages_are_fresh(database_url: str) -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--check", "--database-url", database_url],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_page_that_does_not_exist_is_refused() -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "comand"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "there is no page comand: " in done.stderr


def test_every_settings_class_is_on_the_page_of_variables() -> None:
    """The names come from the text of the services, which the page's list could lack."""
    page = (FOLDER / "environment.md").read_text()
    text = "\n".join(path.read_text() for path in (ROOT / "services").rglob("*.py"))
    classes = re.findall(r"class (\w+)\(ProcessSettings\)", text)
    script = (SCRIPT / "environment_page.py").read_text()
    assert classes
    assert [name for name in classes if f": {name}," not in script] == []
    assert "| `ZEROFLEET_DATABASE_URL` | `postgresql://" in page
    assert "| `ZEROFLEET_DEVICES` | inference | empty |" in page


def test_every_command_has_its_section() -> None:
    page = (FOLDER / "cli.md").read_text()
    commands = re.findall(r"^## zerofleet (\S+)$", page, re.MULTILINE)
    files = {path.stem.replace("_", "-") for path in (ROOT / "src/zerofleet/cli").glob("*.py")}
    files |= {"import"}  # a word of Python, which cannot name a module
    assert {"up", "play", "redis-acl"} <= set(commands) <= files
