"""Files, folders, modules and views that the pages name exist."""

import importlib.machinery
import importlib.util
import re
import subprocess
from functools import cache
from pathlib import Path

import pytest
from typer.main import get_command

import zerofleet
from zerofleet.cli import app

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    str(path.relative_to(ROOT))
    for path in (
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "bench").glob("*.md"),
    )
)
MANIFESTS = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "deploy").rglob("*.yaml"))
CODE = re.compile(r"`([^`\n]+)`")
FILE = re.compile(
    r"(?<![\w./{}<>~$-])([\w-][\w./-]*\.(?:py|h|cpp|sql|md|sh|proto|toml|ya?ml|txt|json))(?!\w)"
)
MODULE = re.compile(r"(?<![\w./-])((?:zerofleet|services|bench)(?:\.\w+)+)")
BLOCK = re.compile(r"^ *```\w*\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"(?<![\w./-])(?<!-n )zerofleet ([a-z][a-z-]+)\b([^\n|#;&>]*)")
OPTION = re.compile(r"(?<!\S)--?[a-z][\w-]*")
LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)\s]*)?\)")
IMAGE_TAG = re.compile(r"(?:\bzerofleet-[a-z$-]+:|\bTAG=)(\d[\w.]*)")
VIEW = re.compile(r"^CREATE VIEW (\w+)", re.MULTILINE)
OF_A_FLEET = {
    *("A.toml", "B.toml", "NEW.toml", "next.toml", "mine.py", "export.json"),
    "mynets.py",
    "breakthrough.py",
    "go5.toml",
    "gpu.json",
    "mine.toml",
    "page.json",
    "pylock.toml",
    "RUN.toml",
    "roles.toml",
    "run-1.0.toml",
    "run.toml",
    "running.json",
    "stores.json",
    "tokens/roles.toml",
    "usage.json",
    "zerofleet.json",
}
"""Files that no checkout has: the reader writes them, or a program does."""


@cache
def tree() -> set[str]:
    """Every tracked file, and each end of its path: pages name a file as briefly as is clear."""
    listing = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    paths = [line.split("/") for line in listing.stdout.splitlines() if (ROOT / line).exists()]
    return {"/".join(parts[start:]) for parts in paths for start in range(len(parts))}


def code_of(page: str) -> list[str]:
    return CODE.findall((ROOT / page).read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", PAGES)
def test_every_file_that_a_page_names_is_there(page: str) -> None:
    named = {name for code in code_of(page) for name in FILE.findall(code)}
    assert named - tree() - OF_A_FLEET == set()


@pytest.mark.parametrize("page", PAGES)
def test_every_link_to_a_file_has_one(page: str) -> None:
    folder = (ROOT / page).parent
    links = LINK.findall((ROOT / page).read_text(encoding="utf-8"))
    assert [link for link in links if not (folder / link).exists()] == []


@pytest.mark.parametrize("page", PAGES)
def test_every_module_that_a_page_names_is_there(page: str) -> None:
    """The last parts may be a class and its method; ``zerofleet.v1`` is a package of protobuf."""
    named = {name for code in code_of(page) for name in MODULE.findall(code)}
    assert [name for name in named - OF_A_FLEET if not is_there(name)] == []


@pytest.mark.parametrize("page", PAGES)
def test_every_command_and_option_that_a_page_names_is_there(page: str) -> None:
    commands = get_command(app).commands
    known = {
        name: {option for each in command.params for option in (*each.opts, *each.secondary_opts)}
        for name, command in commands.items()
    }
    named = commands_of((ROOT / page).read_text(encoding="utf-8"))
    unknown = [
        (name, option)
        for name, options in named
        for option in options or [""]
        if name not in known or option not in {"", "-h", "--help", *known[name]}
    ]
    assert unknown == []


def commands_of(text: str) -> list[tuple[str, list[str]]]:
    """The subcommands of ``zerofleet`` in the code of a page, each with its options."""
    lines = [line for block in BLOCK.findall(text) for line in block.splitlines()]
    return [
        (name, OPTION.findall(arguments))
        for code in lines + CODE.findall(BLOCK.sub("", text))
        if not code.lstrip().startswith(("from ", "import "))
        for name, arguments in COMMAND.findall(code)
    ]


def is_there(name: str) -> bool:
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        spec = find(".".join(parts[:end]))
        if spec is not None and spec.origin is not None:
            text = Path(spec.origin).read_text(encoding="utf-8")
            return end == len(parts) or re.search(rf"\b{parts[end]}\b", text) is not None
    return name.startswith("zerofleet.v1.")


def find(name: str) -> importlib.machinery.ModuleSpec | None:
    try:
        return importlib.util.find_spec(name)
    except ModuleNotFoundError:
        return None


@pytest.mark.parametrize("page", [*PAGES, "Dockerfile", *MANIFESTS])
def test_every_image_that_a_page_or_a_comment_names_has_this_version(page: str) -> None:
    tags = set(IMAGE_TAG.findall((ROOT / page).read_text(encoding="utf-8")))
    assert tags <= {zerofleet.__version__}
    assert tags or page not in ("docs/how-to/compose.md", "docs/how-to/kubernetes.md")


def test_the_page_of_queries_lists_the_views() -> None:
    made = {
        name
        for path in (ROOT / "src/zerofleet/database/views").glob("*.sql")
        for name in re.findall(
            r"^CREATE VIEW (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE
        )
    }
    page = (ROOT / "docs/how-to/sql.md").read_text(encoding="utf-8")
    table = page.partition("| View | Question |")[2].partition("\n\n")[0]
    listed = {name for row in table.splitlines() for name in CODE.findall(row.split(" | ")[0])}
    assert listed == made
    assert made


def test_decisions_are_numbered_once() -> None:
    titles = [
        (path.name, path.read_text(encoding="utf-8").partition(".")[0])
        for path in sorted((ROOT / "docs/explanation/decisions").glob("*.md"))
    ]
    numbers = [f"{number:04}" for number in range(1, len(titles) + 1)]
    assert [name[:4] for name, _ in titles] == numbers
    assert [title for _, title in titles] == [f"# {int(number)}" for number in numbers]


def test_the_pages_are_looked_at() -> None:
    assert len(PAGES) > 20
    assert "src/zerofleet/verdict.py" in tree()
    assert not is_there("zerofleet.no_such_module")
    assert is_there("zerofleet.records.COLUMNS")
    assert commands_of(
        "`zerofleet up --no-such 1` and\n```\n$ zerofleet sql -c 'SELECT 1'\n```\n"
    ) == [
        ("sql", ["-c"]),
        ("up", ["--no-such"]),
    ]
