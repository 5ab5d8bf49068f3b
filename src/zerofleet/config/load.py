"""Reading run files and settings, with errors that name the way out."""

from __future__ import annotations

import contextlib
import difflib
import os
import tomllib
from collections.abc import Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast, get_args

from pydantic import BaseModel, ValidationError

from zerofleet.config.environment import Environment, told, variable_of
from zerofleet.config.process_settings import ENV_PREFIX, ProcessSettings
from zerofleet.config.run import RunConfig
from zerofleet.errors import ConfigError

_OWN_RUN_FILES = Path(__file__).parents[1] / "runs"

_Settings = TypeVar("_Settings", bound=ProcessSettings)


def find_run_file(path: Path) -> Path:
    """The run file that a person names: a path, or the name of one that zerofleet comes with.

    ``connect_four`` is zerofleet's own where no file here is called so.
    """
    is_name = path.parent == Path() and not path.suffix
    own = _OWN_RUN_FILES / f"{path}.toml"
    with contextlib.suppress(OSError, ValueError):  # too long for a name: load_run says so
        if is_name and not path.is_file() and own.is_file():
            return own
    return path


def load_run(path: Path) -> RunConfig:
    """Read a run file, as ``find_run_file`` understands its name.

    Raises:
        ConfigError: one line that names the file (or the variable of the environment), the key,
            the value and the way out.
    """
    path = find_run_file(path)
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(
            f"cannot read the run file {path}: {error.strerror}{_nearest(path)}"
        ) from error
    except (ValueError, RecursionError) as error:  # a number of 5,000 digits is no TOMLDecodeError
        raise ConfigError(f"{path} is not a TOML file: {error}") from error
    _check_environment()
    try:
        return RunConfig(**values)
    except ValidationError as error:
        raise ConfigError(_explain(error, str(path))) from error


def run_file_text(path: Path, run: RunConfig, keys: Mapping[str, Any] | None = None) -> str:
    """A run file's text in which every key that the environment gives has the run's value.

    A key that the environment unsets is left out: TOML has no null.

    Args:
        path: the run file; its comments and what else it says stay as they are.
        run: as ``load_run`` read it.
        keys: sections with further keys that get the run's value, where that is not the file's.
    """
    text = path.read_text(encoding="utf-8")
    given = Environment(RunConfig)()
    values, in_file = run.model_dump(mode="json"), tomllib.loads(text)
    for section, names in (keys or {}).items():
        for name in names:
            if values[section][name] != in_file.get(section, {}).get(name):
                given = {**given, section: {**given.get(section, {}), name: None}}
    if not given:
        return text
    import tomlkit  # of what `zerofleet up` needs; services and images do without

    document = tomlkit.parse(text)
    _put(document, given, values)
    return tomlkit.dumps(document)


def read_settings(kind: type[_Settings], arguments: Sequence[str]) -> _Settings:
    """The settings of a service: the run file is its only argument, the rest is environment.

    Without the argument ``ZEROFLEET_RUN_FILE`` says which run file is meant.

    Raises:
        ConfigError: one line that names the variable, its value and the way out.
    """
    run_file = arguments[0] if arguments else os.environ.get(f"{ENV_PREFIX}RUN_FILE")
    if len(arguments) > 1 or not run_file:
        raise ConfigError(
            "give one argument, the run file: python -m services.NAME RUN_FILE "
            f"(or {ENV_PREFIX}RUN_FILE, as in the images)"
        )
    try:
        return kind(run_file=Path(run_file))
    except ValidationError as error:
        first = error.errors()[0]
        variable = ENV_PREFIX + "__".join(str(part) for part in first["loc"]).upper()
        raise ConfigError(f"{variable} = {first['input']!r}: {first['msg']}") from error


def _check_environment() -> None:
    """Refuse variables of sections that there are not, which pydantic-settings overlooks."""
    for variable in map(str.upper, sorted(os.environ)):
        section, of_section, _ = variable.removeprefix(ENV_PREFIX).lower().partition("__")
        if variable.startswith(ENV_PREFIX) and of_section and _section([section]) is None:
            raise ConfigError(
                f"{told(variable)}: unknown section '{section}'{_near_key(section, [])}"
            )


def _put(
    table: MutableMapping[str, Any], given: Mapping[str, Any], values: Mapping[str, Any]
) -> None:
    """Give ``table`` the keys of ``given``, with their values in ``values``."""
    for key, inner in given.items():
        value = values[key]
        if value is None:
            table.pop(key, None)
        elif isinstance(inner, Mapping):
            if not isinstance(table.get(key), MutableMapping):  # not there, or a game as a word
                table[key] = {}
            _put(table[key], cast("Mapping[str, Any]", inner), value)
        else:
            table[key] = value


def _nearest(path: Path) -> str:
    """The file beside it that may have been meant, or those that zerofleet comes with."""
    others = [other.name for other in path.parent.glob("*.toml") if other != path]
    near = difflib.get_close_matches(path.name, others, n=1, cutoff=0.5)
    if near:
        return f"; did you mean {path.parent / near[0]}?"
    own = ", ".join(sorted(file.stem for file in _OWN_RUN_FILES.glob("*.toml")))
    return f"; zerofleet comes with {own}, which need no path" if own else ""


def _explain(error: ValidationError, source: str) -> str:
    """One problem as one line; an unknown key first, for it may be a missing one misspelt."""
    problems = error.errors()
    first = next((each for each in problems if each["type"] == "extra_forbidden"), problems[0])
    location = [str(part) for part in first["loc"]]
    key = ".".join(location)
    variable = variable_of(location)
    if variable is not None:
        source = told(variable)
    if first["type"] == "extra_forbidden":
        return f"{source}: unknown key '{key}'{_near_key(location[-1], location[:-1])}"
    if first["type"] == "missing":
        return f"{source}: the key '{key}' is missing"
    if not location:
        return f"{source}: {first['msg'].removeprefix('Value error, ')}"
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "value_error" and isinstance(first["input"], dict):
        return f"{source}: {key}: {message}"  # of several keys: the message names the values
    return f"{source}: {key} = {first['input']!r}: {message}"


def _section(path: list[str]) -> type[BaseModel] | None:
    model: type[BaseModel] = RunConfig
    for part in path:
        field = model.model_fields.get(part)
        if field is None:
            return None
        candidates = [field.annotation, *get_args(field.annotation)]
        sections = [c for c in candidates if isinstance(c, type) and issubclass(c, BaseModel)]
        if not sections:
            return None
        model = sections[0]
    return model


def _near_key(key: str, path: list[str]) -> str:
    """The key that may have been meant, or those that there are."""
    near = difflib.get_close_matches(key, _known_keys(path), n=1, cutoff=0.5)
    return f": did you mean '{'.'.join([*path, near[0]])}'?" if near else _key_list(path)


def _known_keys(path: list[str]) -> list[str]:
    model = _section(path)
    return list(model.model_fields) if model else []


def _key_list(path: list[str]) -> str:
    keys = _known_keys(path)
    return f": known keys here are {', '.join(keys)}" if keys else ""
