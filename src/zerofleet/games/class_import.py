"""The class that a name such as ``python:examples.domineering:Domineering`` stands for."""

from __future__ import annotations

import difflib
import importlib.util
import inspect
import os
import sys
from importlib.machinery import PathFinder
from types import FunctionType, ModuleType
from typing import Any

from zerofleet.errors import ConfigError
from zerofleet.games.class_rules import ClassRules
from zerofleet.games.python_game import Game

_SIZES = ("num_actions", "observation_shape", "max_length")
_CLASS_METHODS = ("symmetric_point", "symmetric_action", "action_to_string", "string_to_action")


def load_class_rules(name: str) -> ClassRules:
    """The rules of ``python:MODULE:CLASS``.

    Raises:
        ConfigError: no such class, or it is not a game; the message says what is missing.
    """
    found = import_class(name)
    if not issubclass(found, Game):
        raise ConfigError(f"game '{name}': derive the class from zerofleet.games.Game")
    _require_complete(name, found)
    _require_class_methods(name, found)
    return ClassRules(name, found)


def import_class(name: str) -> type[Any]:
    """Return the class that a name stands for; its module may lie in the working directory.

    Services run where ``zerofleet up`` was typed, so that the same name means the same class to
    all of them. In a container the module is installed, or its folder is on ``PYTHONPATH``.
    Python does not search the working directory for other modules first: ``redis.py`` there must
    not replace the library.

    Raises:
        ConfigError: the name is not of that form, the module does not import, or has no such class.
    """
    _, _, rest = name.partition(":")
    module_name, _, class_name = rest.partition(":")
    parts = module_name.split(".")
    if not all(map(str.isidentifier, [class_name, *parts])) or parts[-1] == "py":
        raise ConfigError(
            f"game '{name}' is not of the form python:MODULE:CLASS, as in "
            "python:examples.domineering:Domineering; a module is named with dots, without .py"
        )
    module = _import(name, module_name)
    found = getattr(module, class_name, None)
    if isinstance(found, type):
        return found
    classes = [key for key, value in vars(module).items() if isinstance(value, type)]
    nearest = difflib.get_close_matches(class_name, classes, n=1, cutoff=0.5)
    hint = f"; did you mean '{nearest[0]}'?" if nearest else ""
    raise ConfigError(f"game '{name}': module {module_name} has no class {class_name}{hint}")


def _import(name: str, module_name: str) -> ModuleType:
    here = os.getcwd()
    if here not in sys.path and "" not in sys.path:
        sys.path.append(here)  # last, for what the game's module imports
    try:
        _import_from(here, module_name.partition(".")[0])
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{module_name}.".startswith(f"{error.name}."):
            raise ConfigError(
                f"game '{name}': no module {error.name} is installed or lies in {here}; "
                "start from the folder that holds it, or put that folder on PYTHONPATH"
            ) from error
        raise ConfigError(f"game '{name}': its module does not import: {error}") from error
    except Exception as error:
        raise ConfigError(
            f"game '{name}': its module does not import: {type(error).__name__}: {error}"
        ) from error


def _import_from(folder: str, name: str) -> None:
    """Import a top-level module or package from a folder if it is there and not imported yet."""
    if name in sys.modules:
        return
    spec = PathFinder.find_spec(name, [folder])
    if spec is None or spec.loader is None or spec.origin is None:  # a folder without __init__.py
        return
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise


def _require_complete(name: str, game: type[Game]) -> None:
    missing = [each for each in _SIZES if not hasattr(game, each)]
    missing += [f"{each}()" for each in sorted(game.__abstractmethods__)]
    if missing:
        raise ConfigError(f"game '{name}': the class has no {', '.join(missing)}")


def _require_class_methods(name: str, game: type[Game]) -> None:
    for each in _CLASS_METHODS:
        if isinstance(inspect.getattr_static(game, each), (FunctionType, property)):
            raise ConfigError(
                f"game '{name}': {each}() is a method of a position, and is asked of the class: "
                "write @classmethod above it, and cls for self"
            )
