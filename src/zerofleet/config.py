"""The run file (what is trained, and how) and the settings of a process (where things are).

Order for both, strongest first: command line, environment (``ZEROFLEET_SEARCH__NUM_SIMULATIONS``),
file, defaults. A key that nobody knows is an error that names the nearest known one.
"""

from __future__ import annotations

import difflib
import math
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from zerofleet.errors import ConfigError

ENV_PREFIX = "ZEROFLEET_"


class Section(BaseModel):
    """A section of the run file: immutable, and strict about its keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class GameSection(Section):
    """``[game]``: what is played."""

    name: str
    """A registered game, such as ``tic_tac_toe`` or ``connect_four``."""


class SearchSection(Section):
    """``[search]``: MCTS as in AlphaGo Zero (Nature 2017, Methods, "Search algorithm")."""

    num_simulations: int = Field(default=100, ge=1)
    """Simulations for each move."""
    c_puct: float = Field(default=1.5, gt=0)
    """Exploration constant of PUCT: ``Q + c_puct * P * sqrt(sum N) / (1 + N)``."""
    fpu: Literal["zero", "reduction"] = "reduction"
    """Value of an unvisited action: 0 as in AlphaGo Zero, or the parent's, reduced."""
    fpu_reduction: float = Field(default=0.2, ge=0)
    """With ``fpu = "reduction"``: parent's value - this * sqrt(prior mass already visited)."""
    dirichlet_fraction: float = Field(default=0.25, ge=0, le=1)
    """Share of noise in the root's priors (epsilon)."""
    dirichlet_alpha: float | None = Field(default=None, gt=0)
    """Concentration of the noise; unset: ``0.03 * 361 / points of the board``."""
    temperature: float = Field(default=1.0, ge=0)
    """Exponent ``1 / temperature`` on visit counts for the first ``temperature_moves`` plies."""
    temperature_moves: int = Field(default=30, ge=0)
    """Plies played at ``temperature``."""
    temperature_final: float = Field(default=0.0, ge=0)
    """Temperature afterwards; 0 takes the most visited action."""
    virtual_loss: float = Field(default=1.0, ge=0)
    """Losses a path counts while its leaf is away (only where one tree has several leaves out)."""
    reuse_tree: bool = True
    """Keep the chosen child's subtree as the next root, under fresh noise."""
    cache_positions: int = Field(default=200_000, ge=0)
    """Predictions kept by position, emptied when the model changes; 0 switches the cache off."""
    random_symmetry: bool = True
    """Show each leaf to the network under a random symmetry of the board."""


class NetworkSection(Section):
    """``[network]``: the residual network with the papers' two heads."""

    blocks: int = Field(default=5, ge=0)
    """Residual blocks after the first convolution."""
    channels: int = Field(default=64, ge=1)
    """Filters of every convolution of the tower."""
    policy_channels: int = Field(default=2, ge=1)
    """Filters of the policy head's 1x1 convolution."""
    value_channels: int = Field(default=1, ge=1)
    """Filters of the value head's 1x1 convolution."""
    value_hidden: int = Field(default=64, ge=1)
    """Width of the value head's hidden layer (256 in the paper)."""


class SelfplaySection(Section):
    """``[selfplay]``: how a worker plays."""

    games_per_engine: int = Field(default=256, ge=1)
    """Games that one engine plays at once; about the leaves of one message."""
    engines: int = Field(default=2, ge=1)
    """Engines in flight in one worker: the tree of one works while the other waits."""
    save_every_plies: int = Field(default=16, ge=1)
    """Unfinished games are saved this often: a SIGKILL loses fewer plies of a game than this."""
    lease_seconds: float = Field(default=30.0, gt=0)
    """A saved game whose worker is silent this long may be adopted by another worker."""
    spool_games: int = Field(default=20_000, ge=1)
    """Finished games held while Postgres does not answer; then play pauses."""
    max_ahead_positions: int = Field(default=0, ge=0)
    """Pause when the trainer has this many positions unread (0: never pause)."""


class InferenceSection(Section):
    """``[inference]``: how predictions are batched."""

    max_batch_rows: int = Field(default=1024, ge=1)
    """Most rows of one batch; also the most of one request."""
    max_queue_rows: int = Field(default=16_384, ge=1)
    """Rows that may wait; beyond, requests are refused with RESOURCE_EXHAUSTED."""
    sessions: int = Field(default=1, ge=1)
    """ONNX Runtime sessions of one thread each that run side by side (on CPU)."""


class TrainerSection(Section):
    """``[trainer]``: window, loss and pace."""

    batch_size: int = Field(default=256, ge=1)
    """Positions of one SGD step."""
    learning_rate: tuple[float, ...] = (0.01, 0.001, 0.0001)
    """Learning rates, annealed in this order ..."""
    learning_rate_steps: tuple[int, ...] = (400_000, 600_000)
    """... each change at one of these steps (one fewer than the rates)."""
    momentum: float = Field(default=0.9, ge=0, lt=1)
    """Momentum of SGD."""
    l2: float = Field(default=1e-4, ge=0)
    """Weight c of ``c * |theta|^2`` in the loss."""
    value_loss_weight: float = Field(default=1.0, gt=0)
    """Weight of the value's squared error beside the policy's cross-entropy."""
    window_games: int = Field(default=500_000, ge=1)
    """Only the most recent this many games are sampled."""
    window_positions: int = Field(default=1_000_000, ge=1)
    """The window holds at most this many positions in memory."""
    min_positions: int = Field(default=2_000, ge=1)
    """Training starts when the window holds this many."""
    samples_per_position: float = Field(default=4.0, gt=0)
    """The train bucket: each new position pays for this many samples, never more."""
    held_out_share: float = Field(default=0.05, ge=0, lt=1)
    """Share of games (by hash of their uid) that is never trained on."""
    publish_every_steps: int = Field(default=1_000, ge=1)
    """A candidate model is published this often."""
    checkpoint_every_steps: int = Field(default=1_000, ge=1)
    """State for resuming is written this often: the most that a crash loses."""
    metrics_every_steps: int = Field(default=100, ge=1)
    """Losses are recorded this often, on trained and on held-out games."""
    threads: int = Field(default=1, ge=1)
    """CPU threads of the trainer."""

    @model_validator(mode="after")
    def _one_rate_more_than_steps(self) -> TrainerSection:
        if len(self.learning_rate) != len(self.learning_rate_steps) + 1:
            raise ValueError(
                f"learning_rate has {len(self.learning_rate)} values and learning_rate_steps "
                f"{len(self.learning_rate_steps)}: give exactly one rate more than steps"
            )
        return self


class EvaluatorSection(Section):
    """``[evaluator]``: matches and the gate."""

    gate: bool = True
    """Play a match before promoting; off, every model that loads is promoted."""
    games: int = Field(default=400, ge=2)
    """Games of a match, in pairs of one opening with colours swapped."""
    num_simulations: int = Field(default=100, ge=1)
    """Simulations for each move of a match."""
    threshold: float = Field(default=0.55, ge=0, le=1)
    """The candidate is promoted when its score (draws count half) is above this."""
    opening_plies: int = Field(default=4, ge=0)
    """Each pair starts after this many random plies, so that its games differ."""


class ExamSection(Section):
    """``[exam]``: the error rate against perfect play, where perfect play is known."""

    num_simulations: int = Field(default=100, ge=1)
    """Simulations for each move of the examined player."""
    positions: int = Field(default=300, ge=1)
    """Positions of the fixed seeded sample (games that are not walked in full)."""


class GoalSection(Section):
    """``[goal]``: where ``zerofleet up --until goal`` ends."""

    exam_error_rate: float = Field(ge=0, le=1)
    """A promoted model at or under this error rate reaches the goal."""


def _plain_name(value: str) -> str:
    if not value.replace("_", "").replace("-", "").isalnum() or len(value) > 48:
        raise ValueError("use letters, digits, '-' and '_', at most 48 of them")
    return value


class RunConfig(BaseSettings):
    """One run, read by all services."""

    model_config = SettingsConfigDict(
        frozen=True,
        extra="forbid",
        env_prefix=ENV_PREFIX,
        env_nested_delimiter="__",
        use_attribute_docstrings=True,
    )

    name: Annotated[str, AfterValidator(_plain_name)]
    """Name of the run: its rows, its model and its pointer carry it."""
    seed: int = Field(default=1, ge=0)
    """Seed of the network's first weights and of everything sampled."""
    game: GameSection
    search: SearchSection = SearchSection()
    network: NetworkSection = NetworkSection()
    selfplay: SelfplaySection = SelfplaySection()
    inference: InferenceSection = InferenceSection()
    trainer: TrainerSection = TrainerSection()
    evaluator: EvaluatorSection = EvaluatorSection()
    exam: ExamSection = ExamSection()
    goal: GoalSection | None = None

    @model_validator(mode="after")
    def _nobody_waits_for_the_other(self) -> RunConfig:
        ahead, trainer = self.selfplay.max_ahead_positions, self.trainer
        step = math.ceil(trainer.batch_size / trainer.samples_per_position)
        if 0 < ahead < max(trainer.min_positions, step):
            raise ValueError(
                f"selfplay.max_ahead_positions = {ahead} would pause play before training can "
                f"start: give {max(trainer.min_positions, step)} or more (trainer.min_positions, "
                "and what one batch costs), or 0 to never pause"
            )
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The environment above the file, whose values come in as arguments."""
        del settings_cls, dotenv_settings, file_secret_settings
        return env_settings, init_settings


class ProcessSettings(BaseSettings):
    """Where a process finds the others; from ``ZEROFLEET_*`` or the command line.

    Secrets stay in files: give Postgres' password by ``?passfile=`` in the URL.
    """

    model_config = SettingsConfigDict(
        frozen=True, env_prefix=ENV_PREFIX, use_attribute_docstrings=True, extra="ignore"
    )

    run_file: Path
    """The run file."""
    database_url: str = "postgresql://zerofleet@127.0.0.1:5432/zerofleet"
    """Postgres, as an SQLAlchemy or libpq URL."""
    redis_url: str = "redis://127.0.0.1:6379/0"
    """Redis or Valkey."""
    inference_address: str = "127.0.0.1:8001"
    """The inference service, ``host:port`` or any gRPC target."""
    listen_address: str = "127.0.0.1:8001"
    """Where the inference service listens."""
    metrics_address: str | None = None
    """Where Prometheus metrics are served over HTTP (``host:port``); unset: nowhere."""
    model_folder: Path = Path("models")
    """The folder of published models."""
    checkpoint_folder: Path = Path("checkpoints")
    """The folder of the trainer's checkpoints."""
    worker: str | None = None
    """Name of this process in records and heartbeats; unset: host name and process id."""
    reflection: bool = False
    """Offer gRPC server reflection."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """The least severe record that is logged."""


_Settings = TypeVar("_Settings", bound=ProcessSettings)


def load_run(path: Path) -> RunConfig:
    """Read a run file.

    Raises:
        ConfigError: one line that names the file, the key, the value and the way out.
    """
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read the run file {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not a TOML file: {error}") from error
    try:
        return RunConfig(**values)
    except ValidationError as error:
        raise ConfigError(_explain(error, str(path))) from error


def read_settings(kind: type[_Settings], arguments: Sequence[str]) -> _Settings:
    """The settings of a service: the run file is its only argument, the rest is environment.

    Raises:
        ConfigError: one line that names the variable, its value and the way out.
    """
    if len(arguments) != 1:
        raise ConfigError("give one argument, the run file: python -m services.NAME RUN_FILE")
    try:
        return kind(run_file=Path(arguments[0]))
    except ValidationError as error:
        first = error.errors()[0]
        variable = ENV_PREFIX + "__".join(str(part) for part in first["loc"]).upper()
        raise ConfigError(f"{variable} = {first['input']!r}: {first['msg']}") from error


def run_from_values(values: dict[str, Any]) -> RunConfig:
    """Rebuild a run from stored values alone, without looking at the environment."""

    class Stored(RunConfig):
        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,
            *_: PydanticBaseSettingsSource,
            **__: PydanticBaseSettingsSource,
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            return (InitSettingsSource(settings_cls, init_kwargs=values),)

    return Stored(**values)


def _explain(error: ValidationError, source: str) -> str:
    """One problem as one line; an unknown key first, for it may be a missing one misspelt."""
    problems = error.errors()
    first = next((each for each in problems if each["type"] == "extra_forbidden"), problems[0])
    location = [str(part) for part in first["loc"]]
    key = ".".join(location)
    if first["type"] == "extra_forbidden":
        near = difflib.get_close_matches(location[-1], _known_keys(location[:-1]), n=1, cutoff=0.5)
        prefix = ".".join([*location[:-1], ""])
        hint = f": did you mean '{prefix}{near[0]}'?" if near else _key_list(location[:-1])
        return f"{source}: unknown key '{key}'{hint}"
    if first["type"] == "missing":
        return f"{source}: the key '{key}' is missing"
    if not location:
        return f"{source}: {first['msg'].removeprefix('Value error, ')}"
    return f"{source}: {key} = {first['input']!r}: {first['msg'].removeprefix('Value error, ')}"


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


def _known_keys(path: list[str]) -> list[str]:
    model = _section(path)
    return list(model.model_fields) if model else []


def _key_list(path: list[str]) -> str:
    keys = _known_keys(path)
    return f": known keys here are {', '.join(keys)}" if keys else ""
