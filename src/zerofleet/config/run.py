"""One run: all sections together."""

from __future__ import annotations

from typing import Annotated, Any, Literal, cast

from pydantic import AfterValidator, Field, model_validator
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from zerofleet.config.environment import Environment
from zerofleet.config.inference import InferenceSection, PrecisionSection, ScalingSection
from zerofleet.config.judging import EvaluatorSection, ExamSection, GoalSection, RatingSection
from zerofleet.config.presets import PRESETS, Values, merge
from zerofleet.config.process_settings import ENV_PREFIX
from zerofleet.config.selfplay import GameSection, ResignSection, SearchSection, SelfplaySection
from zerofleet.config.training import (
    NetworkSection,
    OverfitSection,
    RetentionSection,
    TrainerSection,
)


def _plain_name(value: str) -> str:
    if not value.replace("_", "").replace("-", "").isalnum() or len(value) > 48:
        raise ValueError("use letters, digits, '-' and '_', at most 48 of them")
    return value


def _check_rate(preset: Values, given: object) -> None:
    """An optimizer that is not the preset's learns nothing, or too much, at the preset's rate."""
    trainer = cast("Values", given) if isinstance(given, dict) else {}
    known = preset.get("optimizer", TrainerSection.model_fields["optimizer"].default)
    named = trainer.get("optimizer", known)
    if named != known and "learning_rate" not in trainer:
        raise ValueError(
            f'trainer.optimizer = "{named}" with a preset for "{known}" needs '
            "a trainer.learning_rate of its own: sgd [0.06], adamw [0.002] and muon [0.12] were "
            "measured"
        )


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
    seed: int = Field(default=1, ge=0, lt=2**63)
    """Seed of the network's first weights and of everything sampled."""
    preset: Literal["fast", "agz", "plain"] = "fast"
    """What the file starts from: ``fast`` adds the accelerations of later work, ``agz`` has the
    numbers of the AlphaGo Zero paper, ``plain`` only the defaults below."""
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

    @model_validator(mode="before")
    @classmethod
    def _on_a_preset(cls, values: dict[str, Any]) -> dict[str, Any]:
        if isinstance(values.get("game"), str):
            values = {**values, "game": {"name": values["game"]}}
        preset = values.get("preset", "fast")
        known = isinstance(preset, str) and preset in PRESETS  # else the field's check says so
        base = PRESETS[preset] if known else {}
        _check_rate(base.get("trainer", {}), values.get("trainer"))
        return merge(base, values)

    @model_validator(mode="after")
    def _the_temperature_falls_in_one_way(self) -> RunConfig:
        search = self.search
        given = search.temperature_moves != SearchSection.model_fields["temperature_moves"].default
        if given and search.temperature_halflife > 0:
            raise ValueError(
                f"search.temperature_moves = {search.temperature_moves} has no effect with "
                f"search.temperature_halflife = {search.temperature_halflife:g} (the preset fast "
                "has one): leave it out, or set temperature_halflife = 0"
            )
        return self

    @model_validator(mode="after")
    def _play_can_feed_training(self) -> RunConfig:
        ahead, least = self.selfplay.max_ahead_positions, self.trainer.first_step_positions
        if 0 < ahead < least:
            raise ValueError(
                f"selfplay.max_ahead_positions = {ahead} would pause play before training can "
                f"start: give {least} or more (trainer.min_positions, "
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
        del env_settings, dotenv_settings, file_secret_settings
        return Environment(settings_cls), init_settings


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
