"""The package and its types offer everything that the built extension offers."""

from __future__ import annotations

import ast
from importlib import resources

import zerofleet_core
from zerofleet_core import _ext


def test_package_offers_all_of_the_extension() -> None:
    public = {name for name in dir(_ext) if not name.startswith("_")}
    assert set(zerofleet_core.__all__) == public
    assert all(hasattr(zerofleet_core, name) for name in zerofleet_core.__all__)


def test_the_types_that_the_build_wrote_name_all_of_the_extension() -> None:
    types = ast.parse((resources.files(zerofleet_core) / "_ext.pyi").read_text())
    named = {
        node.name for node in types.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))
    } | {
        node.target.id
        for node in types.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }
    assert set(zerofleet_core.__all__) <= named
