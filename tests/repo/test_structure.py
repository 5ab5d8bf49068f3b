"""No name for two things, no circle of imports, few modules that only one other needs."""

import re
import runpy
import subprocess
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import zerofleet

ROOT = Path(__file__).resolve().parents[2]

COMMAND = "a command of the command line is a file of its name"
SHARED_CLASS_NAMES: dict[str, str] = {}
"""Names of classes that more than one module defines, and why."""

SHARED_FILE_NAMES = {
    "export.py": COMMAND,
    "migrate.py": COMMAND,
    "sgf.py": COMMAND,
}
"""Names of files that more than one folder has, and why."""

CIRCLES: list[list[str]] = []
"""Modules that import each other."""


SCRIPT = runpy.run_path(str(ROOT / "scripts" / "structure.py"))


@cache
def structure() -> Any:
    """The counts of ``scripts/structure.py``."""
    return SCRIPT["Structure"](ROOT)


def test_a_class_name_means_one_thing() -> None:
    """An exception that no longer holds must leave the list."""
    assert len(structure().modules) > 100
    found = structure().shared_class_names()
    assert {name: found[name] for name in found.keys() - SHARED_CLASS_NAMES} == {}, "rename one"
    assert SHARED_CLASS_NAMES.keys() - found.keys() == set(), "no longer so: strike them off"


def test_a_file_name_means_one_thing() -> None:
    found = structure().shared_file_names()
    assert {name: found[name] for name in found.keys() - SHARED_FILE_NAMES} == {}, "rename one"
    assert SHARED_FILE_NAMES.keys() - found.keys() == set(), "no longer so: strike them off"


def test_imports_go_one_way() -> None:
    assert structure().circles() == CIRCLES


def test_few_modules_have_a_single_importer() -> None:
    """Fewer than one in six: the reader of the importer has to open the other file anyway.

    Commands, pages and services are not counted. Each is listed in one place by design.
    """
    pairs = structure().single_importers()
    found = {name: user for name, user in pairs.items() if not SCRIPT["is_entry"](name, user)}
    assert len(found) < len(structure().modules) / 6, f"merge some: {found}"
    assert any(SCRIPT["is_entry"](*pair) for pair in pairs.items())


def test_a_service_has_at_most_seven_floors() -> None:
    services = {path.parent.name for path in ROOT.glob("services/*/__main__.py")}
    floors = {
        name: structure().arrows_and_floors(f"zerofleet.services.{name}")[2] for name in services
    }
    assert len(floors) == 6
    assert {name: count for name, count in floors.items() if count > 7} == {}


def test_the_package_names_the_layers_that_are_checked() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        contracts = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    [layers] = [each["layers"] for each in contracts if each.get("exhaustive")]
    checked = [name for layer in layers for name in layer.split(" | ")]
    assert re.findall(r"``zerofleet\.(\w+)``", zerofleet.__doc__ or "") == checked


def test_the_counting_sees_what_it_should(tmp_path: Path) -> None:
    """A checkout made by hand: who imports what, through a package's face too."""
    sources = {
        "face/__init__.py": "from zerofleet.face.a import A\n__all__ = ['A']\n",
        "face/a.py": "class A: ...\n",
        "face/b.py": "from zerofleet.face import A\nimport zerofleet.c\nclass B: ...\n",
        "c.py": "def late():\n    from zerofleet.face.b import B\nclass A: ...\n",
        "d.py": "from zerofleet.face import b\n" + "\n" * 100,
        "__init__.py": "",
    }
    for name, text in sources.items():
        path = tmp_path / "src" / "zerofleet" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    made = SCRIPT["Structure"](tmp_path)
    assert made.importers()["zerofleet.face.b"] == {"zerofleet.c", "zerofleet.d"}
    assert made.shared_class_names() == {"A": ["zerofleet.c", "zerofleet.face.a"]}
    assert made.circles() == [["zerofleet.c", "zerofleet.face.b"]]
    assert made.arrows_and_floors("zerofleet.face") == (2, 1, 2)
    assert made.single_importers() == {
        "zerofleet.face.a": "zerofleet.face.b",
        "zerofleet.c": "zerofleet.face.b",
    }
