"""Every command of the tutorials runs, in order, and prints the output that its page shows.

A comment before a block tells the test what a reader does at that place:

- ``<!-- file: mine.py -->``: the block is the content of this file;
- ``<!-- when "your action" type "b2" -->``: at this output the reader types a line;
- ``<!-- when "dashboard: http" press Ctrl-C -->``: at this output the reader presses keys;
- ``<!-- skip: why -->``: the test skips the block.

Output is compared line by line, without numbers, moves and the marks on a board. ``...`` stands for
any lines.
"""

import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    page.stem
    for page in (ROOT / "docs" / "tutorials").glob("*.md")
    if page.stem != "laptop-to-cluster"  # its commands need Docker and a cluster
)
LONGEST_SECONDS = 900  # for each block; the machine may be busy
CTRL_C = "Ctrl-C"
INTERRUPTED = (0, 130, -signal.SIGINT)

_BLOCK = re.compile(
    r"(?P<remarks>(?:^<!-- .*? -->\n)*)^```(?P<language>\w*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_REMARK = re.compile(r"<!-- (.*?) -->")
_WHEN = re.compile(r'when "(.+?)" (?:type "(.*)"|press (Ctrl-C))$')
_COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]")

pytestmark = [pytest.mark.slow, pytest.mark.fleet]


@dataclass
class Step:
    """One block of a page.

    Args:
        language: the block's language: sh, python or toml.
        keys: pairs of an expected output and the text to type then.
        shown: lines of output that the page shows after the block.
    """

    language: str
    text: str
    file: str | None = None
    skipped: bool = False
    keys: list[tuple[str, str]] = field(default_factory=list)
    shown: list[str] = field(default_factory=list)


def steps_of(page: str) -> list[Step]:
    """Return the blocks of a page in order."""
    steps: list[Step] = []
    for block in _BLOCK.finditer(page):
        language, text = block["language"], block["text"]
        if language in ("", "text"):
            if steps:
                steps[-1].shown += text.splitlines()
            continue
        step = Step(language, text)
        for remark in _REMARK.findall(block["remarks"]):
            if when := _WHEN.match(remark):
                step.keys.append((when[1], CTRL_C if when[3] else when[2]))
            elif remark.startswith("file: "):
                step.file = remark.removeprefix("file: ")
            else:
                assert remark.startswith("skip: "), remark
                step.skipped = True
        steps.append(step)
    return steps


class Reader:
    """A person at a terminal who follows a page.

    Args:
        folder: the working folder, with the content of a checkout.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._exports: list[str] = []
        bin_folder = Path(sys.executable).parent
        self._environment = {
            **os.environ,
            "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}",
            "TERM": "xterm",
            "COLUMNS": "120",
            "LINES": "50",
            "PAGER": "cat",
        }

    def follow(self, step: Step) -> str:
        """Do one step and return the output on the terminal.

        Raises:
            AssertionError: a command failed, or an output did not come.
        """
        if step.file is not None:
            (self.folder / step.file).write_text(step.text, encoding="utf-8")
            return ""
        if step.language == "python":
            return self._run([sys.executable, "-c", step.text], step)
        assert step.language == "sh", f"no file name for a block of {step.language}"
        output = self._run(["bash", "-ec", "\n".join([*self._exports, step.text])], step)
        self._exports += re.findall(r"^export .*$", step.text, re.MULTILINE)
        return output

    def _run(self, command: list[str], step: Step) -> str:
        keyboard, terminal = pty.openpty()
        process = subprocess.Popen(
            command,
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            cwd=self.folder,
            env=self._environment,
            start_new_session=True,
        )
        os.close(terminal)
        try:
            shown = self._watch(process, keyboard, step)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            os.close(keyboard)
        is_interrupted = any(typed == CTRL_C for _, typed in step.keys)
        expected = INTERRUPTED if is_interrupted else (0,)
        assert process.returncode in expected, f"{step.text}\n{shown}"
        return shown

    def _watch(self, process: subprocess.Popen[bytes], keyboard: int, step: Step) -> str:
        """Read until the process has ended, and type the keys of the page."""
        keys = list(step.keys)
        shown, seen = "", 0
        deadline = time.monotonic() + LONGEST_SECONDS
        while True:
            assert time.monotonic() < deadline, f"still runs: {step.text}\n{shown}"
            if not select.select([keyboard], [], [], 1.0)[0]:
                continue
            try:
                read = os.read(keyboard, 1 << 16)
            except OSError:  # Linux: every process has closed the terminal
                read = b""
            if not read:
                break
            shown = _COLOURS.sub("", shown + read.decode("utf-8", "replace"))
            while keys and (found := re.compile(keys[0][0]).search(shown, seen)):
                seen = found.end()
                typed = keys.pop(0)[1]
                if typed == CTRL_C:
                    os.killpg(process.pid, signal.SIGINT)
                else:
                    os.write(keyboard, f"{typed}\n".encode())
        process.wait(deadline - time.monotonic())
        assert not keys, f"this output did not come: {keys[0][0]}\n{shown}"
        return shown


def without_figures(line: str) -> str:
    """Return a line of output without the parts that differ from run to run."""
    line = re.sub(r"(?<!\S)[.xo|#-](?!\S)", ".", line)
    line = re.sub(r"\S*\d\S*", "#", line)
    line = re.sub(r"-{2,}", "--", line)
    line = " ".join(line.split())
    return re.sub(r"#( #)+", "#", line)


@pytest.fixture
def folder(store_folder: Path, tmp_path: Path) -> Iterator[Path]:
    """A checkout without its zerofleet-data; Postgres' user may enter it."""
    folder = store_folder / tmp_path.name
    folder.mkdir()
    for name in ("examples", "runs"):
        (folder / name).symlink_to(ROOT / name)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_run(page: str, folder: Path) -> None:
    text = (ROOT / "docs" / "tutorials" / f"{page}.md").read_text(encoding="utf-8")
    steps = steps_of(text)
    assert sum(step.skipped for step in steps) <= 1
    reader = Reader(folder)
    for step in steps:
        if step.skipped:
            continue
        output = reader.follow(step)
        printed = {without_figures(line) for line in output.splitlines()}
        missing = [
            line
            for line in step.shown
            if line.strip() not in ("", "...") and without_figures(line) not in printed
        ]
        assert missing == [], f"{step.text}\nprinted:\n{output}"


def test_the_pages_are_read() -> None:
    assert {"first-run", "connect-four", "your-own-game"} <= set(PAGES)
    step, typed = steps_of(
        '<!-- when "go> " type "b2" -->\n```sh\nplay\n```\n\n```\nmodel 3 plays c1\n```\n'
        "<!-- file: a.toml -->\n```toml\nx = 1\n```\n"
    )
    assert step.keys == [("go> ", "b2")]
    assert (typed.file, typed.text) == ("a.toml", "x = 1\n")
    (line,) = step.shown
    assert without_figures(line) == without_figures("model 12 plays  a3 ") == "model # plays #"
