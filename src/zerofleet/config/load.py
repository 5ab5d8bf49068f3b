"""Read run files and settings, and check that the numbers fit the game and this machine."""

from __future__ import annotations

import contextlib
import copy
import difflib
import json
import os
import re
import tomllib
from collections.abc import Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

from pydantic import ValidationError

from zerofleet.config.overrides import Overrides, near_key, section_of, variables_of_keys
from zerofleet.config.presets import Values, merge
from zerofleet.config.process_settings import ENV_PREFIX, ProcessSettings
from zerofleet.config.renamed import FORMAT, carry_over, is_of_1_0, renamed
from zerofleet.config.run import RunConfig, run_from_values
from zerofleet.config.training import NetworkSection, TrainerSection
from zerofleet.errors import ConfigError

_OWN_RUN_FILES = Path(__file__).parents[1] / "runs"

_Settings = TypeVar("_Settings", bound=ProcessSettings)

_KEY = re.compile(rf"\b(?:{'|'.join(RunConfig.model_fields)})\.[a-z_]+\b")
"""A key with its section, in the text of a mistake."""
_TRAINED_BYTES = 16  # per weight: itself, gradient, optimizer's average, copy to save; all fp32


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
        checked: also make the checks of ``check_fit``, which need the game and this machine.

    Raises:
        ConfigError: one line for each mistake. It names the file, variable or option, the key, the
            value and the fix.
    """
    path = find_run_file(path)
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(
            f"cannot read the run file {path}: {error.strerror}{_nearest(path)}"
        ) from error
    except (
        ValueError,
        RecursionError,
    ) as error:  # a number of 5,000 digits raises no TOMLDecodeError
        raise ConfigError(f"{path} is not a TOML file: {error}") from error
    if is_of_1_0(path, values):
        carry_over(values)
    overrides = overrides or Overrides.read()
    values = merge(values, overrides.values)
    run, mistakes = _read(path, values, overrides, checked=checked)
    mistakes = [*variables_of_keys(), *overrides.mistakes, *mistakes]
    if mistakes or run is None:
        raise ConfigError(*mistakes)
    return run


def _read(
    path: Path, values: Values, overrides: Overrides, *, checked: bool
) -> tuple[RunConfig | None, list[str]]:
    """Return the run, and a line for each mistake; with mistakes, the run without these keys.

    Checks of several keys are only made once each key alone is valid. So after a mistake the
    remaining keys are read again, and mistakes about a key that was left out are ignored.
    """
    mistakes: list[str] = []
    dropped: set[str] = set()
    run: RunConfig | None = None
    rest: Values | None = values
    while run is None and rest is not None:
        try:
            run = RunConfig(**rest)
        except ValidationError as error:
            found = [*_explained(error, str(path), rest, overrides), *_unknown_game(error, rest)]
            mistakes += _about_others(found, dropped)
            rest = _without(rest, error, dropped)
    if checked and run is not None:
        mistakes += _about_others(_misfits(run), dropped)
    return run, mistakes


def _without(values: Values, error: ValidationError, dropped: set[str]) -> Values | None:
    """Return the values without the keys that have a mistake; None if that leaves no run.

    Args:
        values: the run's values.
        error: the mistakes in them. A check of several keys names the one to change first.
        dropped: the set to which the left-out keys are added.
    """
    left = copy.deepcopy(values)
    for each in error.errors():
        location = [str(part) for part in each["loc"][:2]]
        path = location or _KEY.findall(each["msg"])[0].split(".")
        dropped.add(".".join(path))
        table = left if len(path) == 1 else left.get(path[0])
        if isinstance(table, dict):
            cast("Values", table).pop(path[-1], None)
    if "selfplay.max_ahead_positions" in dropped:  # the default is too low, too
        left = merge(left, {"selfplay": {"max_ahead_positions": 0}})
    left.setdefault("name", "unnamed")
    return left if left != values and "game" in left else None


def _about_others(lines: Sequence[str], dropped: set[str]) -> list[str]:
    """Return the lines that name no key that was left out."""
    return [line for line in lines if dropped.isdisjoint(_KEY.findall(line))]


def _misfits(run: RunConfig) -> Sequence[str]:
    """Return the mistakes that ``check_fit`` finds.

    Another check reports an unknown game.
    """
    from zerofleet import games

    try:
        check_fit(run, games.spec(run.game.name))
    except ConfigError as error:
        return error.mistakes
    return ()


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
    text = path.read_text(encoding="utf-8")
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
            "give one argument, the run file: python -m zerofleet.services.NAME RUN_FILE "
            f"(or {ENV_PREFIX}RUN_FILE, as in the images)"
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
    error: ValidationError, source: str, values: Mapping[str, Any], overrides: Overrides
) -> list[str]:
    """Return one line for each mistake.

    Args:
        error: the mistakes that pydantic found.
        source: the run file.
        values: the file's contents, with the overrides applied.
        overrides: the overrides.
    """
    problems = error.errors()
    # A rule of a game is a number or a word. A table is a misspelt section.
    rule_like = [
        [str(part) for part in each["loc"]]
        for each in problems
        if each["type"] == "extra_forbidden" and not isinstance(each["input"], dict | list)
    ]
    rules = _rules_hint(rule_like, values)
    lines: list[str] = []
    meant: set[str] = set()  # keys that may only be misspelt, and so are not reported as missing
    for each in sorted(problems, key=lambda problem: problem["type"] == "missing"):
        location = [str(part) for part in each["loc"]]
        key = ".".join(location)
        given = overrides.source_of(location)
        where = given.label if given else source
        message = each["msg"].removeprefix("Value error, ")
        if each["type"] == "tuple_type":
            message = _give_a_list(location)
        if each["type"] == "extra_forbidden":
            is_rule = location in rule_like and (location[0] == "game" or len(location) == 1)
            hint = rules if rules and is_rule else ""
            hint = hint or renamed(key) or near_key(location[-1], location[:-1])
            meant.update(re.findall(r"'([\w.]+)'", hint))
            lines.append(f"{where}: unknown key '{key}'{hint}")
        elif each["type"] == "missing":
            if key not in meant:
                lines.append(f"{where}: the key '{key}' is missing")
        elif not location:
            lines.append(f"{where}: {message}")
        elif each["type"] == "value_error" and isinstance(each["input"], dict):
            # A mistake of several keys, which the message names.
            lines.append(f"{where}: {key}: {message}")
        elif given is not None and given.key == key:
            lines.append(f"{where}: {message}")
        else:
            lines.append(f"{where}: {key} = {each['input']!r}: {message}")
    return lines


def _give_a_list(location: Sequence[str]) -> str:
    """Return the message for a key with one value in place of a list."""
    section = section_of(location[:-1])
    field = section.model_fields.get(location[-1]) if section else None
    default = cast("object", field.default) if field else None
    example = f" such as {json.dumps(default)}" if isinstance(default, tuple) and default else ""
    return f"give a list{example}"


def _rules_hint(unknown: Sequence[Sequence[str]], values: Mapping[str, Any]) -> str:
    """Return the hint that rules of the game are a part of its name; "" if no key is such a rule.

    Args:
        unknown: paths of the unknown keys.
        values: the contents of the file and the environment.
    """
    from zerofleet import games

    given = values.get("game")
    game = cast("dict[str, Any]", given) if isinstance(given, dict) else {"name": given}
    places = {1: values, 2: game}  # at the top level, or in [game]
    rules = {
        path[-1]: str(value).lower() if isinstance(value, bool) else str(value)
        for path in unknown
        if len(path) == 1 or (len(path) == 2 and path[0] == "game")
        for value in [places[len(path)].get(path[-1])]
    }
    family, _, inside = str(game.get("name", "")).removesuffix(")").partition("(")
    if not rules or family not in games.names():
        return ""
    named = ",".join([*filter(None, [inside]), *(f"{key}={rules[key]}" for key in rules)])
    try:
        games.spec(f"{family}({named})")
    except ConfigError as error:
        if all(len(path) == 1 for path in unknown):
            return ""
        return f": the rules of a game are a part of its name, such as go(size=9), but {error}"
    return f': did you mean game = "{family}({named})"?'


def _unknown_game(error: ValidationError, values: Mapping[str, Any]) -> list[str]:
    """Return the mistake in the name of the game, if the game has no other mistake."""
    from zerofleet import games

    game = values.get("game")
    name = cast("dict[str, Any]", game).get("name") if isinstance(game, dict) else game
    if not isinstance(name, str) or any(each["loc"][:1] == ("game",) for each in error.errors()):
        return []
    try:
        games.spec(name)
    except ConfigError as unknown:
        return [str(unknown)]
    return []


class _Board(Protocol):
    """Board and actions that a network is built for; ``zerofleet_core.GameSpec`` has them."""

    @property
    def observation_shape(self) -> tuple[int, int, int]:
        """Planes, rows and columns."""
        ...

    @property
    def num_actions(self) -> int:
        """Actions of the game, legal or not."""
        ...


class _Sizes(_Board, Protocol):
    """The sizes of a game; ``zerofleet_core.GameSpec`` has them."""

    @property
    def max_length(self) -> int:
        """Most plies of a game."""
        ...


def check_fit(run: RunConfig, sizes: _Sizes) -> None:
    """Make all checks of this module.

    Args:
        run: the run file.
        sizes: the sizes of its game.

    Raises:
        ConfigError: one line for each check that failed.
    """
    mistakes: list[str] = []
    for check in (
        lambda: check_messages(run),
        lambda: check_sizes(run.trainer, sizes.max_length),
        lambda: check_policy_head(run.network, sizes),
        lambda: _check_memory(run.network, sizes),
    ):
        try:
            check()
        except ConfigError as error:
            mistakes.extend(error.mistakes)
    if mistakes:
        raise ConfigError(*mistakes)


def check_messages(run: RunConfig) -> None:
    """Refuse an engine whose games do not fit into one request to inference.

    Raises:
        ConfigError: the message names both keys.
    """
    games, rows = run.selfplay.games_per_engine, run.inference.max_batch_rows
    if games > rows:
        raise ConfigError(
            f"selfplay.games_per_engine = {games} is above inference.max_batch_rows = {rows}: "
            "an engine's games are one request"
        )


def check_sizes(settings: TrainerSection, max_length: int) -> None:
    """Refuse sizes that make the trainer wait forever.

    Args:
        settings: the ``[trainer]`` section.
        max_length: most plies of a game.

    Raises:
        ConfigError: one line that names both keys.
    """
    room = settings.window_positions
    if settings.min_positions > room:
        raise ConfigError(
            f"trainer.min_positions = {settings.min_positions}, but trainer.window_positions = "
            f"{room}: training could never start; lower the first or raise the second"
        )
    if settings.min_positions > settings.window_games * max_length:
        raise ConfigError(
            f"trainer.min_positions = {settings.min_positions}, but trainer.window_games = "
            f"{settings.window_games} have {settings.window_games * max_length} at most: training "
            "could never start; lower the first or raise the second"
        )
    if settings.batch_size > room * settings.samples_per_position:
        raise ConfigError(
            f"trainer.batch_size = {settings.batch_size}, but trainer.window_positions = {room} "
            f"pay for {room * settings.samples_per_position:g} samples at most: lower the first "
            "or raise the second"
        )


def check_policy_head(network: NetworkSection, sizes: _Board) -> None:
    """Refuse a policy head that the game or the network does not allow.

    Raises:
        ConfigError: the game has neither as many actions as points nor one more, or pooling leaves
            no channel.
    """
    _, rows, columns = sizes.observation_shape
    points, actions = rows * columns, sizes.num_actions
    if network.policy_head == "convolutional" and actions not in (points, points + 1):
        raise ConfigError(
            f"network.policy_head = 'convolutional' needs {points} or {points + 1} actions on "
            f"a board of {points} points, the game has {actions}: take 'dense'"
        )
    pools = network.global_pooling or network.policy_head == "convolutional"
    if pools and network.channels < 2:
        raise ConfigError(
            f"network.channels = {network.channels} leaves no channel next to the pooled one: give "
            "2 or more, or network.global_pooling = false and policy_head = 'dense'"
        )


def _check_memory(network: NetworkSection, sizes: _Board) -> None:
    """Refuse a network whose training needs more memory than this machine has."""
    weights = network_weights(network, sizes)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if weights * _TRAINED_BYTES <= memory:
        return
    raise ConfigError(
        f"network.blocks = {network.blocks}, channels = {network.channels}, policy_channels = "
        f"{network.policy_channels}, value_channels = {network.value_channels}, value_hidden = "
        f"{network.value_hidden} are {weights:,} weights: training them takes "
        f"{weights * _TRAINED_BYTES / 1e9:,.0f} GB, and this machine has {memory / 1e9:,.0f} GB of "
        "memory: lower the largest of them"
    )


def network_weights(network: NetworkSection, sizes: _Board) -> int:
    """Return the approximate number of weights of a network, from its largest layers."""
    planes, rows, columns = sizes.observation_shape
    points, channels = rows * columns, network.channels
    tower = 9 * channels * (planes + 2 * network.blocks * channels)
    policy = network.policy_channels * channels
    if network.policy_head == "dense":
        policy += network.policy_channels * points * sizes.num_actions
    value = network.value_channels * (channels + points * network.value_hidden)
    return tower + policy + value
