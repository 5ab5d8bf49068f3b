"""What a service does, in words, from the figures of its heartbeat."""

from __future__ import annotations

from zerofleet.figures import (
    AutoscalerFigures,
    EvaluatorFigures,
    Figures,
    InferenceFigures,
    TrainerFigures,
)


def work_words(figures: Figures) -> str:
    """What a service does that waits for nothing."""
    match figures:
        case EvaluatorFigures():
            return _judging(figures)
        case TrainerFigures():
            return "trains"
        case InferenceFigures():
            return f"predicts on {figures.devices} GPUs" if figures.devices else "predicts"
        case AutoscalerFigures():
            return "sizes the fleet"
        case _:
            return "plays"


def _judging(figures: EvaluatorFigures) -> str:
    """A match goes before the games that wait for it."""
    if figures.match_in_play:
        games = _games(figures.match_games, figures.match_most_games, figures.match_score)
        return f"plays a match: {games}"
    if figures.variant_in_play:
        precision = "int8" if figures.variant_int8 else "fp16"
        games = _games(figures.variant_games, figures.variant_most_games, figures.variant_score)
        return f"plays {precision} of {figures.variant_version} against fp32: {games}"
    if figures.rating_in_play:
        games = _games(figures.rating_player_games, figures.rating_player_most_games, None)
        return f"rates {figures.rating_player}: {games}"
    return "judges"


def _games(played: int, most: int, score: float | None) -> str:
    """Such as ``23 of 64 games, score 0.61``."""
    games = f"{played} of {most} games"
    return games if score is None else f"{games}, score {score:.2f}"
