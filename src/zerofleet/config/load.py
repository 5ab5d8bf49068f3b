"""Read run files and settings, and explain the mistakes in them."""

from __future__ import annotations

import contextlib
import copy
import difflib
import json
import os
import re
import tomllib
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from pydantic import ValidationError

from zerofleet.config.fit import conflicts_with_game
from zerofleet.config.overrides import Overrides, misplaced_keys, near_key, section_of
from zerofleet.config.presets import Values, merge
from zerofleet.config.process_settings import ENV_PREFIX, ProcessSettings
from zerofleet.config.renamed import FORMAT, carry_over, is_of_1_0, renamed
from zerofleet.config.run import EACH_KEY_ALONE, RunConfig, conflicts, run_from_values
from zerofleet.errors import ConfigError
from zerofleet.printable import shortened

if TYPE_CHECKING:
    from zerofleet import games

_OWN_RUN_FILES = Path(__file__).parents[1] / "runs"

_Settings = TypeVar("_Settings", bound=ProcessSettings)

_KEY = re.compile(rf"\b(?:{'|'.join(RunConfig.model_fields)})\.[a-z_]+\b")
"""A key with its section, in the text of a mistake."""
_UNKNOWN_RULE = re.compile(r"unknown rule '(.*?)';")


def find_run_file(path: Path) -> Path:
    """Return the run file for a path, or for the name of a run file that zerofleet ships.

    ``connect_four`` means the shipped file unless a file of that name exists here.
    """
    is_name = path.parent == Path() and not path.suffix
    own = _OWN_RUN_FILES / f"{path}.toml"
    with contextlib.suppress(OSError, ValueError):  # too long for a name: load_run says so
        if is_name and not path.is_file() and own.is_file():
            return own
    return path


def load_run(path: Path, overrides: Overrides | None = None, *, checked: bool = False) -> RunConfig:
    """Read a run file, found by ``find_run_file``.

    Args:
        path: the run file, or its name.
        overrides: keys that override the file; by default from ``ZEROFLEET_SET``.
        checked: also check that the numbers fit the game and this machine.

    Raises:
        ConfigError: one line for each mistake. It names the file, variable or option, the key, the
            value and the fix.
    """
    path = find_run_file(path)
    try:
        values: Values = tomllib.loads(_text(path))
    except OSError as error:
        raise ConfigError(
            f"cannot read the run file {path}: {error.strerror}{_nearest(path)}"
        ) from error
    except UnicodeDecodeError as error:
        if path.suffix == ".onnx":
            raise ConfigError(
                f"{path} is a model, not a run file: give its run, and the model by its version"
            ) from error
        raise ConfigError(f"{path} is not a TOML file: save it as text in UTF-8") from error
    except (
        ValueError,
        RecursionError,
    ) as error:  # a number of 5,000 digits raises no TOMLDecodeError
        raise ConfigError(f"{path} is not a TOML file: {shortened(str(error))}") from error
    if is_of_1_0(path, values):
        carry_over(values)
    overrides = overrides or Overrides.read()
    if isinstance(values.get("game"), str):
        values["game"] = {"name": values["game"]}
    values = merge(values, overrides.values)
    mistakes = [*misplaced_keys(), *overrides.mistakes]
    run, found = _read(path, values, overrides, mistakes, checked=checked)
    mistakes += found
    if mistakes or run is None:
        raise ConfigError(*mistakes)
    return run


def _read(
    path: Path,
    values: Values,
    overrides: Overrides,
    known: Sequence[str],
    *,
    checked: bool,
) -> tuple[RunConfig | None, list[str]]:
    """Return the run, and a line for each mistake; with mistakes, the run without these keys.

    Args:
        path: the run file.
        values: its contents, with the overrides applied.
        overrides: the overrides.
        known: the mistakes in the overrides.
        checked: also make the checks of ``conflicts_with_game``.
    """
    mistakes: list[str] = []
    run: RunConfig | None = None
    left_out: set[str] = set()
    try:
        run = RunConfig.model_validate(values, context=EACH_KEY_ALONE)
    except ValidationError as error:
        mistakes += _explained(error, path, values, overrides)
        values = _without(values, error, left_out)
        with contextlib.suppress(ValidationError):
            run = RunConfig.model_validate(values, context=EACH_KEY_ALONE)
    if run is None:
        return run, mistakes
    game = None
    # A command on a run that was started before may not need its game.
    if (checked or known or mistakes) and not {"game", "game.name"} & left_out:
        game = _game(run, path, overrides, mistakes)
    if "preset" in left_out:  # it may have had other values for any key
        return run, mistakes
    found = list(conflicts(run, values))
    if checked and game is not None:
        found += conflicts_with_game(run, game)
    # A message names the key with the mistake, and the key that may have been meant.
    doubtful = {*left_out, *_KEY.findall("\n".join([*known, *mistakes]))}
    for conflict in found:
        sections = {key.partition(".")[0] for key in conflict.keys}
        if doubtful.isdisjoint({*conflict.keys, *sections}):
            mistakes.append(f"{_source(conflict.keys, path, overrides)}: {conflict.message}")
    return run, mistakes


def _without(values: Values, error: ValidationError, left_out: set[str]) -> Values:
    """Return the values without the keys that have a mistake.

    Args:
        values: the run's values.
        error: the mistakes in them.
        left_out: the set to which these keys are added.
    """
    rest = copy.deepcopy(values)
    for each in error.errors():
        path = [str(part) for part in each["loc"][:2]]
        left_out.add(".".join(path))
        table = rest if len(path) == 1 else rest.get(path[0])
        if isinstance(table, dict):
            cast("Values", table).pop(path[-1], None)
        if each["type"] == "missing":
            rest.pop(path[0], None)
    rest.setdefault("name", "unnamed")
    rest["game"] = {"name": "unknown", **rest.get("game", {})}
    return rest


def _source(keys: Iterable[str], path: Path, overrides: Overrides) -> str:
    """Return the override that gave one of the keys; the run file if there is none."""
    given = (overrides.source_of(key.split(".")) for key in keys)
    return next((each.label for each in given if each), str(path))


def _game(
    run: RunConfig, path: Path, overrides: Overrides, mistakes: list[str]
) -> games.GameSpec | None:
    """Return the game's sizes; add a mistake if there is no such game."""
    from zerofleet import games

    try:
        return games.spec(run.game.name)
    except ConfigError as error:
        mistakes.append(f"{_source(['game.name'], path, overrides)}: {error}")
        return None


def _text(path: Path) -> str:
    """Return the text of a run file, without the byte order mark that some editors write."""
    return path.read_text(encoding="utf-8-sig")


def run_file_text(
    path: Path,
    run: RunConfig,
    keys: Mapping[str, Any] | None = None,
    overrides: Overrides | None = None,
) -> str:
    """Return a run file's text in which every overridden key has the run's value.

    An unset key is left out, because TOML has no null. The text names the format of its keys. A
    copy stored by 1.0 is converted to today's keys.

    Args:
        path: the run file; its comments and all other keys stay as they are.
        run: the run as ``load_run`` read it.
        keys: sections with further keys to write, where the run's value is not the file's.
        overrides: keys that override the file; by default from ``ZEROFLEET_SET``.
    """
    text = _text(path)
    in_file = tomllib.loads(text)
    if "format" not in in_file:
        if is_of_1_0(path, in_file):
            text = _carried_text(text)
        text = f"format = {FORMAT}\n{text}"
        in_file = tomllib.loads(text)
    given = (overrides or Overrides.read()).values
    values = run.model_dump(mode="json")
    for section, names in (keys or {}).items():
        for name in names:
            if values[section][name] != in_file.get(section, {}).get(name):
                given = {**given, section: {**given.get(section, {}), name: None}}
    if not given:
        return text
    import tomlkit  # only `zerofleet up` needs it; services and images run without it

    document = tomlkit.parse(text)
    _put(document, given, values)
    return tomlkit.dumps(document)


def read_settings(kind: type[_Settings], arguments: Sequence[str]) -> _Settings:
    """Read a service's settings: the run file from its argument, the rest from the environment.

    Without the argument, ``ZEROFLEET_RUN_FILE`` names the run file.

    Raises:
        ConfigError: one line that names the variable, its value and the fix.
    """
    run_file = arguments[0] if arguments else os.environ.get(f"{ENV_PREFIX}RUN_FILE")
    if len(arguments) > 1 or not run_file:
        raise ConfigError(
            "a service needs one argument, its run file: start it as python -m "
            f"zerofleet.services.NAME RUN_FILE, or set {ENV_PREFIX}RUN_FILE"
        )
    try:
        return kind(run_file=Path(run_file))
    except ValidationError as error:
        first = error.errors()[0]
        variable = ENV_PREFIX + "__".join(str(part) for part in first["loc"]).upper()
        raise ConfigError(f"{variable} = {first['input']!r}: {first['msg']}") from error


def stored_run(values: dict[str, Any]) -> RunConfig:
    """Rebuild a run from its configuration in Postgres, which 1.0 may have stored.

    Raises:
        ValueError: a newer zerofleet, or another program, stored it.
    """
    values = copy.deepcopy(values)
    if "format" not in values:
        carry_over(values)
    return run_from_values(values)


def _carried_text(text: str) -> str:
    """Convert the text of a run file of 1.0 to today's keys; its comments stay."""
    import tomlkit

    document = tomlkit.parse(text)
    carry_over(document)
    return tomlkit.dumps(document)


def _put(
    table: MutableMapping[str, Any], given: Mapping[str, Any], values: Mapping[str, Any]
) -> None:
    """Write the keys of ``given`` into ``table``, with their values from ``values``."""
    for key, inner in given.items():
        value = values[key]
        if value is None:
            table.pop(key, None)
        elif isinstance(inner, Mapping):
            if not isinstance(table.get(key), MutableMapping):  # missing, or a game as a string
                table[key] = {}
            _put(table[key], cast("Mapping[str, Any]", inner), value)
        else:
            table[key] = value


def _nearest(path: Path) -> str:
    """Return a hint: a similarly named file in the same folder, or the run files of zerofleet."""
    others = [other.name for other in path.parent.glob("*.toml") if other != path]
    near = difflib.get_close_matches(path.name, others, n=1, cutoff=0.5)
    if near:
        return f"; did you mean {path.parent / near[0]}?"
    own = ", ".join(sorted(file.stem for file in _OWN_RUN_FILES.glob("*.toml")))
    return f"; zerofleet comes with {own}, which need no path" if own else ""


def _explained(
    error: ValidationError, path: Path, values: Mapping[str, Any], overrides: Overrides
) -> list[str]:
    """Return one line for each mistake.

    Args:
        error: the mistakes that pydantic found.
        path: the run file.
        values: the file's contents, with the overrides applied.
        overrides: the overrides.
    """
    problems = error.errors()
    unknown = [
        tuple(str(part) for part in each["loc"])
        for each in problems
        # A rule of a game is a number or a word. A table is a misspelt section.
        if each["type"] == "extra_forbidden" and not isinstance(each["input"], dict | list)
    ]
    rules = _rule_hints(unknown, values)
    lines: list[str] = []
    meant: set[str] = set()  # keys that may only be misspelt, and so are not reported as missing
    for each in sorted(problems, key=lambda problem: problem["type"] == "missing"):
        location = tuple(str(part) for part in each["loc"])
        key = ".".join(location)
        given = overrides.source_of(location)
        where = given.label if given else path
        message = each["msg"].removeprefix("Value error, ")
        if each["type"] == "tuple_type":
            message = _give_a_list(location)
        if each["type"] == "extra_forbidden":
            hint = rules.get(location) or renamed(key) or near_key(location[-1], location[:-1])
            meant.update(re.findall(r"'([\w.]+)'", hint))
            lines.append(f"{where}: unknown key '{shortened(key)}'{hint}")
        elif each["type"] == "missing":
            if key not in meant:
                lines.append(f"{where}: the key '{key}' is missing")
        elif given is not None and given.key == key:
            lines.append(f"{where}: {message}")
        else:
            lines.append(f"{where}: {key} = {_shown(each['input'])}: {message}")
    return lines


def _shown(value: object) -> str:
    """Return a value much as TOML writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    text = repr(list(cast("tuple[object, ...]", value)) if isinstance(value, tuple) else value)
    return shortened(text)


def _give_a_list(location: Sequence[str]) -> str:
    """Return the message for a key with one value in place of a list."""
    section = section_of(location[:-1])
    field = section.model_fields.get(location[-1]) if section else None
    default = cast("object", field.default) if field else None
    example = f" such as {json.dumps(default)}" if isinstance(default, tuple) and default else ""
    return f"give a list{example}"


def _rule_hints(
    unknown: Sequence[tuple[str, ...]], values: Mapping[str, Any]
) -> dict[tuple[str, ...], str]:
    """Return a hint for each key that is a rule of the game, which belongs into the game's name.

    Args:
        unknown: paths of the unknown keys.
        values: the contents of the file, with the overrides applied.
    """
    from zerofleet import games

    given = values.get("game")
    game: Mapping[str, Any] = cast("Values", given) if isinstance(given, dict) else {}
    family, _, inside = str(game.get("name", "")).removesuffix(")").partition("(")
    places = {1: values, 2: game}  # at the top level, or in [game]
    rules = {
        path: places[len(path)][path[-1]]
        for path in unknown
        if len(path) == 1 or (len(path) == 2 and path[0] == "game")
    }
    if family not in games.names():
        return {}
    hints: dict[tuple[str, ...], str] = {}
    while rules:
        texts = [
            f"{path[-1]}={str(value).lower() if isinstance(value, bool) else value}"
            for path, value in rules.items()
        ]
        name = f"{family}({','.join(filter(None, [inside, *texts]))})"
        try:
            games.spec(name)
        except ConfigError as error:
            hint = f": the rules of a game are a part of its name, such as go(size=9), but {error}"
            foreign = _UNKNOWN_RULE.search(str(error))
            refused = [path for path in rules if foreign and path[-1].strip() == foreign[1]]
            for path in refused or list(rules):
                del rules[path]
                if not refused or len(path) == 2:  # at the top level it need not be a rule
                    hints[path] = hint
        else:
            hints.update(dict.fromkeys(rules, f': did you mean game = "{name}"?'))
            break
    return hints
