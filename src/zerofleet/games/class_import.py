"""From ``python:MODULE:CLASS`` to the class."""

from __future__ import annotations

import difflib
import importlib
import os
import sys
from types import ModuleType
from typing import Any

from zerofleet.errors import ConfigError


def import_class(name: str) -> type[Any]:
    """The class that a name stands for; its module may lie in the working directory.

    Services run where ``zerofleet up`` was typed, so that the same name means the same class to
    all of them. In a container the module is installed, or its folder is on ``PYTHONPATH``.

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
        sys.path.append(here)  # installed commands do not look there, `python -m` does
    try:
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
