"""The whole run file, and its sections for inference, evaluation and scaling."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    ModelWrapValidatorHandler,
    ValidationInfo,
    model_validator,
)

from zerofleet.config.anchor_names import check_anchor
from zerofleet.config.presets import PRESETS, merge
from zerofleet.config.section import BASIC, RunFileTable, Section
from zerofleet.config.selfplay import GameSection, ResignSection, SearchSection, SelfplaySection
from zerofleet.config.training import (
    NetworkSection,
    OverfitSection,
    RetentionSection,
    TrainerSection,
    is_own_network,
)
from zerofleet.prediction import Precision, VariantPrecision

WantedVariant = Literal["auto", VariantPrecision]
EACH_KEY_ALONE = {"conflicts": False}
"""Context of a validation that leaves out the checks of several keys."""


def _each_once(value: tuple[WantedVariant, ...]) -> tuple[WantedVariant, ...]:
    if len(set(value)) != len(value):
        raise ValueError("name each precision once")
    return value


class PrecisionSection(Section):
    """``[precision]``: quantized variants of each model, and bounds on their error."""

    variants: Annotated[tuple[WantedVariant, ...], AfterValidator(_each_once)] = Field(
        default=("auto",), json_schema_extra=BASIC
    )
    """Precisions in which each model is published in addition to fp32: ``int8`` for CPUs, ``fp16``
    for GPUs. ``auto``: the precisions for what the inference replicas run on, both in a fleet with
    both. ``[]``: fp32 alone."""
    max_policy_kl: float = Field(default=0.005, gt=0)
    """Highest policy error of a variant: mean KL divergence from fp32, in nats. A variant above it
    is refused."""
    max_value_difference: float = Field(default=0.02, gt=0)
    """Highest value error of a variant: mean absolute difference from fp32. A variant above it is
    refused."""
    calibration_positions: ClassVar[int] = 512
    """Positions of the training window that calibrate int8; from random play while the window has
    fewer."""
    check_positions: ClassVar[int] = 1024
    """Validation positions on which a variant is checked; from random play while there are
    fewer."""


class InferenceSection(Section):
    """``[inference]``: batching, hardware and precision of predictions."""

    max_batch_rows: int = Field(default=1024, ge=1, json_schema_extra=BASIC)
    """Most positions in one batch, and in one request. On a GPU every batch size takes memory."""
    max_queue_rows: int = Field(default=16_384, ge=1)
    """Most positions in the queue. Further requests are refused with RESOURCE_EXHAUSTED."""
    sessions: int = Field(default=0, ge=0, json_schema_extra=BASIC)
    """Batches computed at the same time. On the CPU each one takes a thread. On a GPU a second one
    overlaps copies with computation. 0: one on the CPU, two on a GPU."""
    provider: Literal["auto", "cpu", "cuda", "tensorrt", "openvino"] = "auto"
    """ONNX Runtime execution provider that runs the network. ``auto`` takes CUDA if it is installed
    and works, otherwise the CPU. We have not run ``tensorrt``."""
    require_gpu: bool = Field(default=False, json_schema_extra=BASIC)
    """Stop with an error instead of running without a GPU."""
    precision: Literal["auto", Precision] = "auto"
    """Variant of a model that answers, if it was published and accepted. ``auto`` measures the
    variants on this machine, and leaves fp32 for one that is at least 15% faster."""


class ScalingSection(Section):
    """``[scaling]``: the rule of the autoscaler and of the advice in ``zerofleet status``."""

    min_workers: int = Field(default=1, ge=1)
    """Lowest number of self-play workers."""
    max_workers: int = Field(default=100, ge=1, json_schema_extra=BASIC)
    """Highest number of self-play workers."""
    min_inference: int = Field(default=1, ge=1)
    """Lowest number of inference replicas."""
    max_inference: int = Field(default=1, ge=1, json_schema_extra=BASIC)
    """Highest number of inference replicas; 1: inference is not scaled."""
    grow_above: ClassVar[float] = 1.1
    """Scale up when the useful number of workers exceeds the current one by this factor. Kubernetes
    ignores changes of less than a tenth."""
    shrink_below: ClassVar[float] = 0.8
    """Scale down when less than this share of the workers was useful for
    ``shrink_after_seconds``."""
    shrink_after_seconds: float = Field(default=600.0, gt=0)
    """Seconds with too many workers before the fleet scales down."""
    max_wait: ClassVar[float] = 1.0
    """Ratio of a request's queue wait to the time of a batch, above which more workers do not
    help."""
    inference_load: ClassVar[float] = 0.8
    """Target load of inference replicas, as a share of their capacity in positions a second."""
    window_seconds: float = Field(default=60.0, gt=0)
    """Seconds over which measurements are averaged."""
    every_seconds: float = Field(default=10.0, gt=0)
    """Seconds between two scaling decisions."""


def _all_known(anchors: tuple[str, ...]) -> tuple[str, ...]:
    for name in anchors:
        check_anchor(name)
    return anchors


def _in_order(hypotheses: tuple[float, float]) -> tuple[float, float]:
    if hypotheses[0] >= hypotheses[1]:
        raise ValueError("the first must be the smaller one")
    return hypotheses


class EvaluatorSection(Section):
    """``[evaluator]``: matches between a new model and the best one, and promotion."""

    gate: bool = Field(default=True, json_schema_extra=BASIC)
    """Play a match before promoting a model, as AlphaGo Zero did. Off: promote every model that
    loads, as AlphaZero did (Silver et al. 2018)."""
    test: Literal["fixed", "sprt"] = "sprt"
    """Test of a match. ``fixed`` plays all games, then applies the threshold. ``sprt`` is a
    sequential test that may stop early (Wald 1945, on pentanomial pair scores); if it does not
    decide, the threshold does."""
    games: int = Field(default=400, ge=2, json_schema_extra=BASIC)
    """Most games of a match. The two games of a pair share an opening and swap colours."""
    num_simulations: int = Field(default=100, ge=1, json_schema_extra=BASIC)
    """Simulations for each move of a match."""
    threshold: float = Field(default=0.5, ge=0, le=1, json_schema_extra=BASIC)
    """Score above which the candidate is promoted; draws count half."""
    draws_only: Literal["promote", "reject"] = "promote"
    """Verdict of a match in which every game was drawn."""
    sprt_elo: Annotated[tuple[float, float], AfterValidator(_in_order)] = (0.0, 35.0)
    """Logistic Elo differences of the two hypotheses of the sequential test."""
    sprt_error: ClassVar[float] = 0.05
    """Probability of either wrong verdict of the sequential test."""
    opening_plies: int = Field(default=4, ge=0, json_schema_extra=BASIC)
    """Random plies at the start of each pair, so that pairs differ."""
    pairs_at_once: int = Field(default=32, ge=1)
    """Pairs that a sequential test plays at the same time."""


class RatingSection(Section):
    """``[rating]``: games that rate promoted models; they decide no promotion."""

    every: int = Field(default=1, ge=1, json_schema_extra=BASIC)
    """Rate the first promoted model and every Nth one after it. Raise it with ``evaluator.gate``
    off: every model is then promoted, and rating all of them would cost more CPU than a gate."""
    games: int = Field(default=20, ge=0, json_schema_extra=BASIC)
    """Games against each opponent, in pairs with colours swapped; 0: rate by matches alone."""
    opponents: tuple[Annotated[int, Field(ge=1)], ...] = (1, 5, 15)
    """Opponents among the rated models: 5 is the model five places earlier."""
    anchors: Annotated[tuple[str, ...], AfterValidator(_all_known)] = Field(
        default=("random", "search"), json_schema_extra=BASIC
    )
    """Fixed opponents. ``random`` plays at random. ``search`` is PUCT without a network (equal
    priors, value 0). ``gnugo:LEVEL`` plays Go, if the program gnugo is on PATH.
    ``uci:PROGRAM?OPTION=VALUE`` and ``gtp:COMMAND`` are other programs, and ``python:MODULE:CLASS``
    is a player of your own. ``ZEROFLEET_ENGINES`` of the evaluator must allow these three."""
    num_simulations: int = Field(default=100, ge=1)
    """Simulations for each move of a rating game."""
    openings: tuple[str, ...] = ()
    """Start positions of rating games in the game's notation, each for two games against each
    opponent. Empty: openings are drawn, as ``evaluator.opening_plies`` says."""
    share: ClassVar[float] = 0.2
    """Share of the evaluator's time for rating games and trials while candidates wait."""


class ExamSection(Section):
    """``[exam]``: error rate compared with perfect play, for games whose perfect play is known."""

    num_simulations: int = Field(default=100, ge=1, json_schema_extra=BASIC)
    """Simulations for each move of the examined player."""
    positions: int = Field(default=300, ge=1)
    """Positions in each sample, for games too large to examine every line of play."""


class GoalSection(Section):
    """``[goal]``: when ``zerofleet up --until goal`` stops."""

    exam_error_rate: float = Field(ge=0, le=1, json_schema_extra=BASIC)
    """Highest error rate in the exam with which a promoted model reaches the goal."""


def _plain_name(value: str) -> str:
    if not value.replace("_", "").replace("-", "").isalnum() or len(value) > 48:
        raise ValueError("use letters, digits, '-' and '_', at most 48 of them")
    return value


def _no_fast(value: object) -> object:
    if value == "fast":
        raise ValueError(
            "the defaults replace this preset: leave the line out (docs/how-to/tuning.md lists the "
            "differences)"
        )
    return value


@dataclass(frozen=True, slots=True)
class Conflict:
    """Keys that are valid alone and contradict each other."""

    message: str
    keys: tuple[str, ...]
    """Keys that the check read. A mistake in one of them makes the check meaningless."""


class RunConfig(RunFileTable):
    """One run, read by all services."""

    name: Annotated[str, AfterValidator(_plain_name)] = Field(json_schema_extra=BASIC)
    """Name of the run, in its rows, its models and its pointer to the best model."""
    format: Literal[2] = 2
    """Format of the keys; a run file may leave it out. The copy in a data folder names it, so that
    a later version can read the copy."""
    seed: int = Field(default=1, ge=0, lt=2**63, json_schema_extra=BASIC)
    """Seed of the network's first weights and of all sampling."""
    preset: Annotated[Literal["agz", "plain"] | None, BeforeValidator(_no_fast)] = Field(
        default=None, json_schema_extra=BASIC
    )
    """Values that replace the defaults. ``agz`` has the numbers of the AlphaGo Zero paper,
    ``plain`` is the bare algorithm. Unset: the defaults, which we recommend."""
    game: GameSection
    search: SearchSection = SearchSection()
    resign: ResignSection = ResignSection()
    network: NetworkSection = NetworkSection()
    selfplay: SelfplaySection = SelfplaySection()
    inference: InferenceSection = InferenceSection()
    trainer: TrainerSection = TrainerSection()
    overfit: OverfitSection = OverfitSection()
    retention: RetentionSection = RetentionSection()
    precision: PrecisionSection = PrecisionSection()
    evaluator: EvaluatorSection = EvaluatorSection()
    rating: RatingSection = RatingSection()
    exam: ExamSection = ExamSection()
    goal: GoalSection | None = None
    scaling: ScalingSection = ScalingSection()

    @model_validator(mode="wrap")
    @classmethod
    def _apply_preset(
        cls, values: dict[str, Any], handler: ModelWrapValidatorHandler[Self], info: ValidationInfo
    ) -> Self:
        for section in ("game", "network"):
            if isinstance(values.get(section), str):
                values = {**values, section: {"name": values[section]}}
        preset = values.get("preset")
        # The field's own check reports an unknown preset.
        base = PRESETS.get(preset, {}) if isinstance(preset, str) else {}
        if is_own_network(values.get("network")):
            base = {section: keys for section, keys in base.items() if section != "network"}
        run = handler(merge(base, values))
        if info.context != EACH_KEY_ALONE:
            found = [conflict.message for conflict in conflicts(run, values)]
            if found:
                raise ValueError("; ".join(found))
        return run


def run_from_values(values: dict[str, Any]) -> RunConfig:
    """Make a run of the values of a run file."""
    return RunConfig(**values)


def conflicts(run: RunConfig, given: Mapping[str, Any]) -> Generator[Conflict]:
    """Yield the conflicts that need neither the game nor this machine.

    Args:
        run: the run, whose keys are valid alone.
        given: the values that it was made of, without its preset and the defaults.
    """
    yield from _rate_of_another_optimizer(run, given)
    yield from _rates_and_steps(run.trainer)
    yield from _limits_of_scaling(run)
    yield from _two_temperatures(run.selfplay)
    yield from _gates_of_attention(run.network)
    yield from _pause_before_training(run)


def _rate_of_another_optimizer(run: RunConfig, given: Mapping[str, Any]) -> Generator[Conflict]:
    """Refuse an optimizer with another optimizer's learning rate: it would not learn well."""
    preset = PRESETS.get(run.preset or "", {}).get("trainer", {})
    usual = preset.get("optimizer", TrainerSection.model_fields["optimizer"].default)
    trainer = given.get("trainer", {})
    names = trainer.model_fields_set if isinstance(trainer, BaseModel) else trainer
    if run.trainer.optimizer != usual and "learning_rate" not in names:
        yield Conflict(
            f'trainer.optimizer = "{run.trainer.optimizer}" in place of "{usual}" needs a '
            "trainer.learning_rate of its own: sgd [0.06], adamw [0.002] and muon [0.12] were "
            "measured",
            ("trainer.optimizer", "trainer.learning_rate"),
        )


def _rates_and_steps(trainer: TrainerSection) -> Generator[Conflict]:
    rates, steps = len(trainer.learning_rate), len(trainer.learning_rate_steps)
    if rates != steps + 1:
        yield Conflict(
            f"trainer.learning_rate has {rates} values and trainer.learning_rate_steps {steps}: "
            "give exactly one rate more than steps",
            ("trainer.learning_rate", "trainer.learning_rate_steps"),
        )


def _limits_of_scaling(run: RunConfig) -> Generator[Conflict]:
    for kind in ("workers", "inference"):
        least, most = f"min_{kind}", f"max_{kind}"
        low, high = getattr(run.scaling, least), getattr(run.scaling, most)
        if low > high:
            yield Conflict(
                f"scaling.{least} = {low} is above scaling.{most} = {high}: lower the first or "
                "raise the second",
                (f"scaling.{least}", f"scaling.{most}"),
            )


def _two_temperatures(play: SelfplaySection) -> Generator[Conflict]:
    """Refuse both ways in which the temperature of self-play can fall."""
    is_given = play.temperature_moves != SelfplaySection.model_fields["temperature_moves"].default
    if is_given and play.temperature_halflife > 0:
        yield Conflict(
            f"selfplay.temperature_moves = {play.temperature_moves} has no effect with "
            f"selfplay.temperature_halflife = {play.temperature_halflife:g}: give one of them",
            ("selfplay.temperature_moves", "selfplay.temperature_halflife"),
        )


def _gates_of_attention(network: NetworkSection) -> Generator[Conflict]:
    if network.name == "attention" and network.squeeze_excitation:
        yield Conflict(
            'network.squeeze_excitation has no effect with network.name = "attention": remove it',
            ("network.name", "network.squeeze_excitation"),
        )


def _pause_before_training(run: RunConfig) -> Generator[Conflict]:
    ahead, least = run.selfplay.max_ahead_positions, run.trainer.first_step_positions
    if 0 < ahead < least:
        yield Conflict(
            f"selfplay.max_ahead_positions = {ahead} would pause play before training can start: "
            f"give {least} or more (trainer.min_positions, and what one batch costs), or 0 to "
            "never pause",
            (
                "selfplay.max_ahead_positions",
                "trainer.min_positions",
                "trainer.batch_size",
                "trainer.samples_per_position",
            ),
        )
