"""A stored game as SGF, with the values and visits of its searches as comments."""

from __future__ import annotations

from collections import Counter

from zerofleet_core import State

from zerofleet.database.played_games import PlayedGame, PlayedPly, opinions_of
from zerofleet.games import parse_actions
from zerofleet.games.sgf import SgfGame, require_sgf, write

_BEST_MOVES = 5
_COLOURS = ("Black", "White")  # by player


def sgf_of_game(run: str, played: PlayedGame) -> str:
    """The SGF of a stored game.

    Raises:
        ConfigError: its game has no SGF.
    """
    # Before a state is made: a stored name of the kind "python:" would have its module imported.
    require_sgf(played.game)
    return write(
        SgfGame(
            game=played.game,
            actions=actions_of(played),
            black=_player(run, played.first_model),
            white=_player(run, played.second_model),
            resigned=played.reason == "resign",
            comments=_comments(played),
            values=_values(played),
            root={
                "DT": played.finished_at.date().isoformat(),
                "EV": f"{run}, {played.kind}",
                "GN": str(played.game_uid),
            },
        )
    )


def actions_of(played: PlayedGame) -> list[int]:
    """The actions of a game, from its searches or, where they are forgotten, from its moves."""
    if played.plies:
        return [ply.action for ply in played.plies]
    return parse_actions(played.game, played.moves)


def _player(run: str, model: int | None) -> str:
    return f"{run} {model}" if model else ""


def _comments(played: PlayedGame) -> list[str]:
    state = State(played.game)
    comments: list[str] = []
    for ply in played.plies:
        comments.append(_comment(state, ply))
        state.apply(ply.action)
    return comments


def _values(played: PlayedGame) -> list[float | None]:
    """Return the values of one opinion, for the first player; None at plies of other opinions.

    A graph of both players' values would show their disagreement as mistakes. The opinion with the
    most values is used; if two have equally many, the first one.
    """
    state = State(played.game)
    to_play: list[int] = []
    for ply in played.plies:
        to_play.append(state.to_play)
        state.apply(ply.action)
    opinions = opinions_of(played, to_play)
    counted = Counter(opinion for opinion in opinions if opinion is not None)
    shown = max(counted, key=lambda opinion: counted[opinion], default=None)
    return [
        ply.root_value * (1 - 2 * player) if shown is not None and opinion == shown else None
        for ply, player, opinion in zip(played.plies, to_play, opinions, strict=True)
    ]


def _comment(state: State, ply: PlayedPly) -> str:
    """Return the search of one ply in words, or nothing where there was no search."""
    if not ply.simulations:
        return ""
    by_visits = sorted(
        zip(ply.visit_counts, ply.legal_actions, strict=True), key=lambda row: -row[0]
    )
    best = [
        f"{state.action_to_string(action)} {visits}"
        for visits, action in by_visits[:_BEST_MOVES]
        if visits
    ]
    return (
        f"value for {_COLOURS[state.to_play]} {ply.root_value:+.3f} "
        f"after {ply.simulations} simulations "
        f"({ply.network_value:+.3f} before), model {ply.model_version}\n"
        f"visits: {', '.join(best) or 'none'}"
    )
