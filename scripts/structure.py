"""Count what the repository consists of: files, lines, modules, names, imports.

``python scripts/structure.py [CHECKOUT]``: for this repository, or for another checkout of it, so
that two states can be compared. ``tests/repo/test_structure.py`` holds the rules.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from statistics import median

SMALL = 60
"""Lines of a module that the report counts as small."""
FILE_NAMES_SHARED = frozenset({"__init__.py", "__main__.py", "settings.py", "service.py"})
"""File names that each service or package may use once."""

_KINDS = (
    ("generated", ("*.pyi",)),
    ("Python, src and services", ("src/*.py", "services/*.py")),
    ("C++, core", ("core/include/*.h", "core/src/*", "core/bindings/*")),
    ("SQL", ("*.sql",)),
    ("tests", ("tests/*", "core/tests/*")),
    ("docs", ("*.md",)),
    ("deploy", ("deploy/*", "Dockerfile", "docker-compose.yml")),
    ("bench, scripts, examples", ("bench/*", "scripts/*", "examples/*")),
)


@dataclass
class Module:
    """A Python module of src or services."""

    path: Path
    lines: int
    imports: set[str] = field(default_factory=set[str])  # modules of ours
    classes: list[str] = field(default_factory=list[str])


class Structure:
    """The modules of a checkout.

    Args:
        root: of a git checkout.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._trees = {
            _module_name(path): (path, ast.parse((root / path).read_text(encoding="utf-8")))
            for path in self.files("src/*.py", "services/*.py")
        }
        self._faces = {name: dict(self._face(name)) for name in self._trees}
        self.modules = {name: self._module(name) for name in self._trees}

    def files(self, *patterns: str) -> list[Path]:
        """Files of these patterns that git knows or would add, relative to the root."""
        listing = subprocess.run(
            # The git that a developer has, wherever it is.
            ["git", "ls-files", "-co", "--exclude-standard", "--", *patterns],  # nosec B607
            cwd=self.root,
            capture_output=True,
            text=True,
            check=True,
        )
        return [Path(line) for line in listing.stdout.splitlines() if (self.root / line).is_file()]

    def importers(self) -> dict[str, set[str]]:
        """Who imports each module; what a package only passes on is its importers' own."""
        found: dict[str, set[str]] = {name: set() for name in self.modules}
        for name, module in self.modules.items():
            for imported in module.imports:
                found[imported].add(name)
        return found

    def single_importers(self) -> dict[str, str]:
        """Return the modules that one other module imports, and that module."""
        return {name: min(names) for name, names in self.importers().items() if len(names) == 1}

    def shared_class_names(self) -> dict[str, list[str]]:
        """Names of classes that several modules define, and these."""
        places = defaultdict[str, set[str]](set)
        for name, module in self.modules.items():
            for each in module.classes:
                places[each].add(name)
        return {each: sorted(where) for each, where in sorted(places.items()) if len(where) > 1}

    def shared_file_names(self) -> dict[str, list[str]]:
        """Return file names that several files have, except names that each service may use."""
        places = defaultdict[str, list[str]](list)
        for module in self.modules.values():
            if module.path.name not in FILE_NAMES_SHARED and "versions" not in module.path.parts:
                places[module.path.name].append(str(module.path.parent))
        return {name: sorted(where) for name, where in sorted(places.items()) if len(where) > 1}

    def circles(self) -> list[list[str]]:
        """Modules that import each other, over however many others."""
        reached = {name: self._reached(name) for name in self.modules}
        circles = {
            tuple(sorted(other for other in reached[name] if name in reached[other]))
            for name in self.modules
            if name in reached[name]
        }
        return sorted(map(list, circles))

    def arrows_and_floors(self, package: str) -> tuple[int, int, int]:
        """Modules of a package, imports between them, and the longest chain of these."""
        inside = {name for name in self.modules if name.startswith(f"{package}.")}
        arrows = {name: self.modules[name].imports & inside for name in inside}

        @cache
        def floors(name: str, above: frozenset[str]) -> int:
            below = arrows[name] - above
            return 1 + max((floors(each, above | {name}) for each in below), default=0)

        highest = max((floors(name, frozenset({name})) for name in inside), default=0)
        return len(inside), sum(map(len, arrows.values())), highest

    def _reached(self, name: str) -> set[str]:
        reached, pending = set[str](), list(self.modules[name].imports)
        while pending:
            module = pending.pop()
            if module not in reached:
                reached.add(module)
                pending += self.modules[module].imports
        return reached

    def _module(self, name: str) -> Module:
        path, tree = self._trees[name]
        lines = len((self.root / path).read_text(encoding="utf-8").splitlines())
        module = Module(path, lines)
        passed_on = set(self._faces[name].values()) if path.name == "__init__.py" else set[str]()
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                module.classes.append(node.name)
            elif isinstance(node, ast.Import):
                module.imports |= {each.name for each in node.names if each.name in self._trees}
            elif isinstance(node, ast.ImportFrom) and node.module:
                module.imports |= {self._source(node.module, each.name) for each in node.names}
        module.imports = (module.imports & self._trees.keys()) - passed_on - {name}
        return module

    def _source(self, module: str, name: str) -> str:
        """The module that ``from module import name`` ends at."""
        if f"{module}.{name}" in self._trees:
            return f"{module}.{name}"
        return self._faces.get(module, {}).get(name, module)

    def _face(self, name: str) -> Iterator[tuple[str, str]]:
        """Return names that a package re-exports in its ``__all__``, and their modules."""
        path, tree = self._trees[name]
        if path.name != "__init__.py":
            return
        public = set[str]()
        for node in tree.body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                public = set(ast.literal_eval(node.value))
        for node in tree.body:
            if isinstance(node, ast.ImportFrom) and node.module:
                for each in node.names:
                    if each.name in public:
                        yield each.name, node.module


def is_entry(name: str, importer: str) -> bool:
    """Return whether a module is a command, a page or a service, which is listed in one place."""
    leaf = importer.rpartition(".")[2]
    is_page = name.endswith("_page") and importer == "zerofleet.services.dashboard.service"
    return leaf == "__main__" or importer == "zerofleet.cli" or is_page


def _module_name(path: Path) -> str:
    parts = path.with_suffix("").parts
    parts = parts[1:] if parts[0] == "src" else ("zerofleet", *parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _lines(root: Path, paths: Iterable[Path]) -> int:
    return sum((root / path).read_bytes().count(b"\n") for path in paths)


def report(structure: Structure) -> Iterator[str]:
    """The lines of the report."""
    files = structure.files()
    yield f"files {len(files)}, lines {_lines(structure.root, files):,}"
    counted = set[Path]()
    for kind, patterns in _KINDS:
        paths = set(structure.files(*patterns)) - counted
        counted |= paths
        yield f"  {kind}: {len(paths)} files, {_lines(structure.root, paths):,} lines"
    others = set(files) - counted
    yield f"  others: {len(others)} files, {_lines(structure.root, others):,} lines"

    sizes = [module.lines for module in structure.modules.values()]
    ones = structure.single_importers()
    entries = sum(is_entry(*pair) for pair in ones.items())
    yield (
        f"modules {len(sizes)}, median {median(sizes):.0f} lines, {sum(s < SMALL for s in sizes)} "
        f"under {SMALL}, {sum(s >= 300 for s in sizes)} of 300 or more; "
        f"one importer: {len(ones)}, of these {entries} commands, pages and services"
    )

    classes = Counter(each for module in structure.modules.values() for each in module.classes)
    yield f"classes {classes.total()}"
    for what, shared in (
        ("class names of several modules", structure.shared_class_names()),
        ("file names of several folders", structure.shared_file_names()),
    ):
        yield f"{what}: {len(shared)}"
        yield from (f"  {name}: {', '.join(places)}" for name, places in shared.items())

    arrows = sum(len(module.imports) for module in structure.modules.values())
    yield f"imports between modules: {arrows}"
    services = {
        name.split(".")[2] for name in structure.modules if name.startswith("zerofleet.services.")
    }
    for service in sorted(services):
        count, inside, floors = structure.arrows_and_floors(f"zerofleet.services.{service}")
        yield f"  zerofleet.services.{service}: {count} modules, {inside} imports, {floors} floors"
    circles = structure.circles()
    yield f"circles of imports: {len(circles)}"
    yield from (f"  {' <-> '.join(circle)}" for circle in circles)


def main() -> None:
    """Print the report."""
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[1]
    for line in report(Structure(root.resolve())):
        print(line)


if __name__ == "__main__":
    main()
