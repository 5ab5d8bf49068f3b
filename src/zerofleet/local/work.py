"""What a service does, in words, from the figures of its heartbeat."""

from __future__ import annotations

from collections.abc import Mapping

_WORK = {
    "inference": "predicts",
    "trainer": "trains",
    "selfplay": "plays",
    "autoscaler": "sizes the fleet",
}


def work_words(service: str, figures: Mapping[str, float]) -> str:
    """What a service does that waits for nothing.

    Args:
        service: such as ``trainer``.
        figures: of its heartbeat.
    """
    return _judging(figures) if service == "evaluator" else _WORK.get(service, "works")


def _judging(figures: Mapping[str, float]) -> str:
    """A match goes before the games that wait for it."""
    if figures.get("match_in_play"):
        return f"plays a match: {_games(figures, 'match')}"
    if figures.get("trial_in_play"):
        return f"plays a trial: {_games(figures, 'trial')}"
    if figures.get("rating_in_play"):
        return f"rates {figures.get('rating_player', 0):.0f}: {_games(figures, 'rating_player')}"
    return "judges"


def _games(figures: Mapping[str, float], kind: str) -> str:
    """Such as ``23 of 64 games, score 0.61``."""
    played, most = (figures.get(f"{kind}_{name}", 0) for name in ("games", "most_games"))
    score = figures.get(f"{kind}_score")
    games = f"{played:.0f} of {most:.0f} games"
    return games if score is None else f"{games}, score {score:.2f}"
