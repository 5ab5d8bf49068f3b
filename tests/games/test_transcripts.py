"""A golden playthrough of every family: a change of rules, notation or picture shows up here.

``python tests/games/test_transcripts.py`` plays each transcript's line again and rewrites its file.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import zerofleet_core

from zerofleet import games

FOLDER = Path(__file__).parent / "transcripts"
GAME, LINE = "game: ", "line: "


def render(game: str, line: str) -> str:
    """The playthrough of a line as text: each position as a player and a network see it."""
    spec = games.spec(game)
    planes, rows, columns = spec.observation_shape
    parts = [
        f"{GAME}{game}\n{LINE}{line}\n"
        f"actions: {spec.num_actions}\nobservation: {planes} planes of {rows} x {columns}\n"
        f"longest game: {spec.max_length}\nsymmetries: {spec.num_symmetries}\n"
    ]
    state = games.State(game)
    for action in [*games.parse_actions(game, line), None]:
        legal = " ".join(state.action_to_string(action) for action in state.legal_actions())
        parts.append(
            f"ply {state.ply}\n{state}\n"
            f"observation: {state.observation().tobytes().hex()}\nhash: {state.hash:016x}\n"
        )
        if action is not None:
            player = ("first", "second")[state.to_play]
            parts[-1] += (
                f"legal: {legal}\nthe {player} player plays: {state.action_to_string(action)}\n"
            )
            state.apply(action)
    assert state.is_terminal, "a transcript shows a game to its end"
    return "\n".join(parts) + f"result: {state.result}\n"


def again(recorded: str) -> str:
    """The same game and line, played now."""
    rows = recorded.splitlines()
    game, line = (
        next(row.removeprefix(start) for row in rows if row.startswith(start))
        for start in (GAME, LINE)
    )
    return render(game, line)


@pytest.mark.parametrize("family", zerofleet_core.game_names())
def test_the_game_plays_as_recorded(family: str) -> None:
    recorded = (FOLDER / f"{family}.txt").read_text()
    assert recorded.startswith(f"{GAME}{family}")
    assert again(recorded) == recorded


def test_no_transcript_is_left_over() -> None:
    assert {path.stem for path in FOLDER.glob("*")} == set(zerofleet_core.game_names())


if __name__ == "__main__":
    for path in FOLDER.glob("*.txt"):
        path.write_text(again(path.read_text()))
