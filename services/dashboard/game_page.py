"""One stored game: its positions, the searches that chose each action, and the value's curve."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import cycle, pairwise
from typing import Any
from uuid import UUID

from zerofleet import games
from zerofleet.database.played_games import (
    GAME,
    PLIES,
    Opinion,
    PlayedGame,
    PlayedPly,
    RecordFormat,
    actions_of,
    opinions_of,
    played_game_of,
    record_format,
)
from zerofleet.errors import ConfigError, RecordRejectedError, ZerofleetError
from zerofleet.fleet.report import counted
from zerofleet.games import State
from zerofleet.games.game_board import GameBoard, board_of
from zerofleet.games.notation import move_numbers, player_names, whole_number
from zerofleet.services.dashboard.board import Board, flip_button, require_known
from zerofleet.services.dashboard.candidates import (
    Candidate,
    CandidateTable,
    prior_marks,
    ranked,
    visit_marks,
)
from zerofleet.services.dashboard.charts import (
    BLUE,
    ORANGE,
    PURPLE,
    RED,
    ChartAxis,
    ChartLine,
    ChartPanel,
    Drawing,
)
from zerofleet.services.dashboard.frame import (
    Frame,
    NothingThereError,
    Visit,
    models_words,
    page_heading,
    result_words,
    sentence,
)
from zerofleet.services.dashboard.match_page import MATCH_KINDS, REASONS, player_words
from zerofleet.services.dashboard.position_field import CopyFields
from zerofleet.services.dashboard.toolkit import events, ui

_BLUNDER = 0.4  # loss of value, for the player who moves
_COLOURS = (BLUE, ORANGE, PURPLE)  # colours of the curves
_NOT_OURS = "no model of this run"
_OWN = "own"
_OWN_WORDS = "the players' own"
_OWN_SHOWN = "The players' own values are shown instead."
_OWN_NOTE = (
    "One curve for each player, from its own searches. A blunder (?) loses "
    f"{_BLUNDER:g} or more by the same player's next search, or by the result."
)
_SHARED_NOTE = (
    f"A blunder (?) loses {_BLUNDER:g} or more by the model's search of the next position, or by "
    "the result."
)
_POINTS_NOTE = "Click a point to open its position."
_SCHEDULE = (
    "A schedule sets how many simulations each move gets: equal visits do not mean equal values."
)
_SEARCHES_GONE = "The searches of this game were deleted. Its moves can still be viewed."
_NONE_SEARCHED = "No action of this game was chosen by a search."
_MATCH = """
SELECT m.kind, m.player, m.opponent, mg.color
FROM match_games AS mg JOIN matches AS m USING (match_id) WHERE mg.game_uid = :game_uid
"""


@dataclass(frozen=True, slots=True)
class ValueCurve:
    """The values of a game's positions by one opinion."""

    name: str
    player: int | None  # owner of the values; None: a model that judges both players
    values: Mapping[int, float]  # by ply, for the first player


@dataclass(frozen=True, slots=True)
class WalkedGame:
    """A stored game, replayed under the rules."""

    played: PlayedGame
    actions: tuple[int, ...]
    words: tuple[str, ...]  # the actions in the game's notation
    to_play: tuple[int, ...]  # player of each ply
    names: tuple[str, str]  # names of those who played, first who played ``players[0]``
    kind: str
    title: str

    @property
    def players(self) -> tuple[str, str]:
        """Names that the game has for its players, such as White and Black."""
        return player_names(self.played.game)

    def curves(self) -> list[ValueCurve]:
        """Return the values stored with the game: a curve for each opinion, in order."""
        found: dict[Opinion, dict[int, float]] = {}
        opinions = opinions_of(self.played, self.to_play)
        for number, (opinion, ply) in enumerate(zip(opinions, self.played.plies, strict=True)):
            if opinion is not None:
                sign = 1 - 2 * self.to_play[number]
                found.setdefault(opinion, {})[number] = sign * ply.root_value
        return [
            ValueCurve(self.name_of(opinion), opinion.player, values)
            for opinion, values in found.items()
        ]

    def blunders(self, curve: ValueCurve) -> list[int]:
        """Return the plies whose action lost the player who moved much value, by one opinion.

        The value before the action is compared with the next value of the same opinion. If the
        opinion is one player's own, that is at its next move. If the rules ended the game, the
        result is the value after the last action.
        """

        def between(ply: int, later: int) -> bool:
            """Whether an action in between has no value, so that it may have been the mistake."""
            return any(curve.player in (None, player) for player in self.to_play[ply + 1 : later])

        values = dict(curve.values)
        if self.played.reason == "rules":
            values[len(self.actions)] = float(self.played.result)
        return [
            ply
            for ply, later in pairwise(sorted(values))
            if (values[ply] - values[later]) * (1 - 2 * self.to_play[ply]) >= _BLUNDER
            and not between(ply, later)
        ]

    @property
    def first_searched(self) -> int:
        """First ply with a search, after the opening plies; 0 if no search is stored."""
        searched = (number for number, ply in enumerate(self.played.plies) if ply.simulations)
        return next(searched, 0)

    def name_of(self, opinion: Opinion) -> str:
        """Return the name of the owner of an opinion."""
        if opinion.player is None:
            return f"model {opinion.model_version}" if opinion.model_version else _NOT_OURS
        return f"{self.names[opinion.player]} ({self.players[opinion.player].removeprefix('the ')})"


def add_game_page(frame: Frame) -> None:
    """Register the page."""

    @frame.page("/games/{uid}", "Game", "ply", "model", under="/games")
    async def _(visit: Visit) -> None:
        walked = await read_game(visit)
        played = walked.played
        board = await asyncio.to_thread(lambda: board_of(played.game).starting_at(played.start))
        await GameView(visit, walked, board).open(_requested_ply(visit, walked))


async def read_game(visit: Visit) -> WalkedGame:
    """Return the game in the address.

    Raises:
        NothingThereError: the run has no such game, or it cannot be shown; the message says why.
        StoreUnavailableError: Postgres is down.
    """
    requested = visit.parameters["uid"]
    try:
        uid = str(UUID(requested))
    except ValueError as error:
        raise NothingThereError(f"'{requested[:80]}' is not the uid of a game") from error
    rows = await visit.sources.rows(GAME, run=visit.run.name, game_uid=uid)
    if not rows:
        raise NothingThereError(f"the run '{visit.run.name}' has no finished game {uid}")
    plies = await visit.sources.rows(PLIES, game_uid=uid)
    match = await visit.sources.rows(_MATCH, game_uid=uid)
    try:
        require_known(rows[0].game, visit.sources.run.game)
        played = played_game_of(rows[0], plies)
        return await asyncio.to_thread(_walked, played, match)
    except (ConfigError, RecordRejectedError, ValueError) as error:
        raise NothingThereError(f"game {uid} cannot be shown: {error}") from error


def _walked(played: PlayedGame, match: Sequence[Any]) -> WalkedGame:
    """Replay a game.

    Raises:
        ValueError: it does not replay, or a search has actions that its game does not have.
        RecordRejectedError: its moves are none of the game.
    """
    most = games.spec(played.game).num_actions
    for number, ply in enumerate(played.plies):
        if len(ply.legal_actions) > most or any(not 0 <= each < most for each in ply.legal_actions):
            raise ValueError(
                f"the search of ply {number} lists other actions than the {most:,} of {played.game}"
            )
    actions = actions_of(played)
    state = State(played.game, [], played.start)
    words: list[str] = []
    to_play: list[int] = []
    for action in actions:
        words.append(state.action_to_san(action))
        to_play.append(state.to_play)
        state.apply(action)
    kind = played.kind
    first, second = played.first_model, played.second_model
    names = (f"model {first}", f"model {first if second is None else second}")
    if kind == "given":
        names = (_NOT_OURS, _NOT_OURS)
    for row in match:
        kind = row.kind
        player, opponent = player_words(row.player), player_words(row.opponent)
        names = (player, opponent) if row.color == 0 else (opponent, player)
    title = f"{names[0]} against {'itself' if names[0] == names[1] else names[1]}"
    if kind == "selfplay":
        searched = (ply.model_version for ply in played.plies if ply.simulations)
        title = f"self-play, {models_words((first, second, *searched))}"
    elif kind == "given":
        title = "game of another run or a file"
    return WalkedGame(
        played,
        tuple(actions),
        tuple(words),
        tuple(to_play),
        names,
        kind,
        sentence(title),
    )


def _requested_ply(visit: Visit, walked: WalkedGame) -> int:
    requested = visit.parameters.get("ply")
    if requested is None:
        return walked.first_searched
    length = len(walked.actions)
    ply = whole_number(requested, length)
    if ply is None:
        raise NothingThereError(f"ply={requested[:20]}: this game has plies 0 to {length}")
    return ply


class GameView:
    """The viewer on one page."""

    def __init__(self, visit: Visit, walked: WalkedGame, game_board: GameBoard) -> None:
        self._visit = visit
        self._walked = walked
        self._game_board = game_board
        self._ply = -1
        self._shown = "visits"
        self._curves = walked.curves()
        file = record_format(walked.played.game)
        self._record = file.text_of(visit.run.name, walked.played) if file else ""
        self._first, self._second = walked.players
        result = walked.played.result
        self._result = result_words(result, walked.players) if result else "a draw"
        # value for the first player before each blunder, by ply
        self._blunders: dict[int, float] = {}
        self._judge = _OWN  # opinion to show: the players' own, or a model's by its version
        self._judging: asyncio.Task[None] | None = None
        with ui.element("div").classes("zf-play"):
            with ui.element("section").classes("zf-panel"):
                self._head()
                self._board = Board(game_board, on_hover=self._hover, flips=True)
                self._controls()
            with ui.element("section").classes("zf-panel zf-side"):
                self._searched = ui.label().classes("zf-note")
                self._table = CandidateTable(self._hover, "action", "visits", "share", "prior")
                config = visit.run.config
                if config is not None and config.search.root == "gumbel":
                    ui.label(_SCHEDULE).classes("zf-note")
                self._moves = ui.element("div").classes("zf-moves")
                self._copies = CopyFields(walked.played.game)
        self._panel = ChartPanel(
            f"Value for {self._first}, after search",
            _NONE_SEARCHED if walked.played.plies else _SEARCHES_GONE,
            wide=True,
            on_point=lambda ply: self.seek(int(ply)),
        )
        with self._panel.controls:
            self._choice = ui.select(
                {_OWN: _OWN_WORDS}, label="Evaluated by", value=_OWN, on_change=self._choose_judge
            )
            self._choice.props("dense outlined options-dense").classes("zf-field")
        self._draw_moves()
        self._draw_curves()
        ui.keyboard(on_key=self._key, ignore=["input", "select", "textarea"])
        visit.while_here(self._stop, self._judge_game)
        if visit.run.name == visit.sources.run.name:
            self._offering = asyncio.create_task(self._offer_models())
        else:
            self._choice.set_visibility(False)

    async def open(self, ply: int) -> None:
        """Show the position before that ply, and wait until it is shown."""
        self.seek(ply)
        await self._board.sought()

    def seek(self, ply: int) -> None:
        """Show the position before that ply, and update the address."""
        ply = max(0, min(ply, len(self._walked.actions)))
        if ply == self._ply:
            return
        first_time, self._ply = self._ply < 0, ply
        actions = self._walked.actions[:ply]
        self._board.seek(actions, playable=False, then=self._drawn)
        self._say()
        self._draw_curves()
        self._slider.set_value(ply)
        if not first_time:
            self._say_address()

    def _go(self, by: int, to: int | None) -> None:
        self.seek(self._ply + by if to is None else to)

    def _head(self) -> None:
        played = self._walked.played
        with ui.element("div").classes("zf-panel-head"):
            page_heading(self._walked.title)
            kind = MATCH_KINDS.get(self._walked.kind)
            how = "forfeit" if played.forfeit else REASONS.get(played.reason, played.reason)
            ui.label(
                f"{sentence(self._result if kind is None else f'{kind}: {self._result}')} "
                f"by {how}, "
                f"{len(self._walked.actions)} plies, {played.finished_at:%Y-%m-%d %H:%M} UTC"
            ).classes("zf-note")
            if played.forfeit:
                ui.label(sentence(played.forfeit)).classes("zf-note zf-wrap")
            if played.start:
                ui.label(f"From the position {played.start}").classes("zf-note zf-wrap")
            if played.repeated_plies is not None:
                repeated = f"plies repeated: {played.repeated_plies}"
                ui.label(f"Began at a mistake of an earlier game ({repeated})").classes("zf-note")

    def _controls(self) -> None:
        last = len(self._walked.actions)
        with ui.element("div").classes("zf-tools"):
            for icon, words, by, to in (
                ("first_page", "To the start", 0, 0),
                ("chevron_left", "Back (left arrow)", -1, None),
                ("chevron_right", "Forward (right arrow)", 1, None),
                ("last_page", "To the end", 0, last),
            ):
                button = ui.button(icon=icon, on_click=partial(self._go, by, to))
                button.props(f'flat dense aria-label="{words}"')
            self._where = ui.label()
            self._slider = ui.slider(
                min=0, max=max(last, 1), on_change=lambda event: self.seek(int(event.value or 0))
            ).classes("zf-slider")
            self._slider.props('dense aria-label="move"')
        with ui.element("div").classes("zf-tools"):
            shown = {"visits": "Visits", "prior": "Prior", "none": "No marks"}
            ui.toggle(shown, value="visits", on_change=self._choose_shown).props(
                'dense no-caps unelevated padding="2px 10px" aria-label="heat map"'
            )
            ui.button("Compare two models", on_click=self._compare).props(
                'outline dense no-caps padding="2px 10px"'
            )
            ui.button("Play from here", on_click=self._go_on).props(
                'outline dense no-caps padding="2px 10px"'
            )
            flip_button()
            file = record_format(self._walked.played.game)
            if file is None:
                return
            download = ui.button(file.suffix.upper(), on_click=partial(self._download, file))
            download.props('outline dense no-caps padding="2px 10px"')

    def _draw_moves(self) -> None:
        """Draw the actions, each a link to its position, with blunders marked."""
        self._moves.clear()
        with self._moves:
            numbers = move_numbers(self._walked.played.game, self._walked.played.start)
            for ply, (word, number) in enumerate(zip(self._walked.words, numbers, strict=False)):
                mark = " ?" if ply in self._blunders else ""
                button = ui.button(f"{number} {word}{mark}", on_click=partial(self.seek, ply + 1))
                button.props("flat dense no-caps")

    def _draw_curves(self) -> None:
        """Draw each opinion's curve, with the blunders by that opinion."""
        blunders = {
            ply: curve.values[ply] for curve in self._curves for ply in self._walked.blunders(curve)
        }
        lines = [
            ChartLine(
                curve.name, [(float(p), v) for p, v in curve.values.items()], colour, dots=True
            )
            for curve, colour in zip(self._curves, cycle(_COLOURS), strict=False)
        ]
        marks = [(float(ply), value) for ply, value in blunders.items()]
        drawing = Drawing(
            lines=[*lines, ChartLine("blunders", marks, RED, dots=True)],
            x=ChartAxis(name="move", least=0, most=float(len(self._walked.actions)), whole=True),
            y=ChartAxis(name=f"+1: {self._first} wins, -1: {self._second} wins", least=-1, most=1),
        )
        if drawing.is_empty:
            self._panel.show(drawing)
        else:
            options = drawing.options()
            options["series"][0]["markLine"] = _here(self._ply)
            options["series"][-1] |= {"lineStyle": {"opacity": 0}, "symbolSize": 10}
            self._panel.show_options(options)
        if self._judge == _OWN:
            own = any(curve.player is not None for curve in self._curves)
            note = f"{_OWN_NOTE if own else _SHARED_NOTE} {_POINTS_NOTE}" if self._curves else ""
            self._panel.note(note)
        if blunders != self._blunders:
            self._blunders = blunders
            self._draw_moves()

    async def _offer_models(self) -> None:
        """Offer the models that can judge the game, once the inference service answers."""
        requested = self._visit.parameters.get("model")
        try:
            with self._visit.sources.asking("Inference"):
                described = await self._visit.sources.player.describe()
        except ZerofleetError as error:
            if requested:
                self._visit.note(f"model={requested[:20]}: {error}. {_OWN_SHOWN}")
            return
        versions = {
            str(version): f"model {version}{' (best)' if version == described.best else ''}"
            for version in reversed(described.versions)
        }
        self._choice.set_options({_OWN: _OWN_WORDS, **versions})
        if requested in versions:
            self._choice.set_value(requested)
        elif requested:
            self._visit.note(
                f"model={requested[:20]}: the inference service has no such model. {_OWN_SHOWN} "
                f"It has {', '.join(list(versions)[:20]) or 'none'}."
            )

    def _choose_judge(self, event: events.ValueChangeEventArguments[Any]) -> None:
        self._stop()
        self._judge = str(event.value)
        self._curves = self._walked.curves() if self._judge == _OWN else []
        self._say_address()
        self._judge_game()

    def _judge_game(self) -> None:
        """Search the game with the chosen model."""
        if self._judge != _OWN:
            self._judging = asyncio.create_task(self._ask_judge(int(self._judge)))
        self._draw_curves()

    async def _ask_judge(self, version: int) -> None:
        """Search each position, within the simulations that a visitor may use in one minute."""
        actions, player = self._walked.actions, self._visit.sources.player
        plies = len(actions) + (self._walked.played.reason != "rules")
        values = dict(self._curves[0].values) if self._curves else {}
        try:
            with self._visit.sources.asking("Inference"):
                described = await player.describe()
                most = described.max_simulations // plies
                simulations = max(1, min(described.num_simulations, most))
                for ply in range(len(values), plies):
                    self._panel.note(f"Model {version} is searching position {ply + 1} of {plies}.")
                    table = await player.search(
                        actions[:ply],
                        start=self._walked.played.start,
                        simulations=simulations,
                        seed=1,
                        version=version,
                    )
                    values[ply] = table.root_value * (1 - 2 * table.to_play)
                    self._curves = [ValueCurve(f"model {version}", None, dict(values))]
                    self._draw_curves()
        except ZerofleetError as error:
            self._panel.note(
                f"Model {version} has searched {len(values)} of {plies} positions: {error}"
            )
            return
        self._panel.note(
            f"Model {version}, {counted(simulations, 'simulation')} for each position. "
            f"{_SHARED_NOTE} {_POINTS_NOTE}"
        )

    def _stop(self) -> bool:
        """Stop the searches of a chosen model; return whether they were running."""
        stopped = self._judging is not None and self._judging.cancel()
        self._judging = None
        return stopped

    def _say_address(self) -> None:
        """Put the position and the chosen model into the address."""
        path = f"/games/{self._walked.played.game_uid}"
        model = None if self._judge == _OWN else self._judge
        with self._where:
            ui.navigate.history.replace(self._visit.link(path, ply=self._ply, model=model))

    def _say(self) -> None:
        last = len(self._walked.actions)
        moved = f": {self._walked.words[self._ply - 1]}" if self._ply else ""
        self._where.set_text(f"Move {self._ply} of {last}{moved}")
        ply = self._searched_ply()
        if ply is None:
            if self._ply == last:
                words = f"The end: {self._result}."
            elif not self._walked.played.plies:
                words = _SEARCHES_GONE
            elif self._walked.played.kind == "selfplay":
                words = f"{self._walked.words[self._ply]} was drawn at random, without a search."
            else:
                words = "No search is stored for this position."
            self._searched.set_text(words)
            return
        player = self._walked.to_play[self._ply]
        sign = 1 - 2 * player
        opinion = opinions_of(self._walked.played, self._walked.to_play)[self._ply]
        name = self._walked.name_of(opinion) if opinion is not None else ""
        self._searched.set_text(
            f"{sentence(self._walked.players[player])} played {self._walked.words[self._ply]}. "
            f"Value for {self._first}: {sign * ply.root_value:+z.3f} by {name}, "
            f"{counted(ply.simulations, 'simulation')}; "
            f"{sign * ply.network_value:+z.3f} before the search."
        )

    def _searched_ply(self) -> PlayedPly | None:
        plies = self._walked.played.plies
        if self._ply >= len(plies) or not plies[self._ply].simulations:
            return None
        return plies[self._ply]

    def _drawn(self) -> None:
        """Show the search and the text of the position on the board."""
        self._draw_search()
        self._copies.show(self._board.position.setup_text, self._record)

    def _draw_search(self) -> None:
        ply = self._searched_ply()
        candidates: list[Candidate] = []
        if ply is not None:
            words = {each.action: each.text for each in self._board.position.actions}
            candidates = ranked(
                Candidate(action, words.get(action, str(action)), visits, prior)
                for action, visits, prior in zip(
                    ply.legal_actions, ply.visit_counts, ply.priors, strict=False
                )
            )
        self._table.show_search(candidates)
        self._table.set_visibility(bool(candidates))
        marks = {"visits": visit_marks, "prior": prior_marks}.get(self._shown)
        best = candidates[0].action if candidates and self._shown == "visits" else None
        self._board.draw_marks(marks(candidates) if marks else (), heat=True, best=best)

    async def _hover(self, action: int | None) -> None:
        actions = self._walked.actions
        line: Sequence[int] = () if action is None else (action,)
        if action is not None and self._ply < len(actions) and action == actions[self._ply]:
            line = actions[self._ply : self._ply + 8]  # the actual continuation
        await self._board.draw_variation(actions[: self._ply], line)

    def _choose_shown(self, event: events.ValueChangeEventArguments[Any]) -> None:
        self._shown = str(event.value)
        self._draw_search()

    def _key(self, event: events.KeyEventArguments) -> None:
        if not event.action.keydown:
            return
        for pressed, target in (
            (event.key.arrow_left, self._ply - 1),
            (event.key.arrow_right, self._ply + 1),
            (event.key.home, 0),
            (event.key.end, len(self._walked.actions)),
        ):
            if pressed:
                self.seek(target)

    def _compare(self) -> None:
        self._continue_on("/compare")

    def _go_on(self) -> None:
        self._continue_on("/play")

    def _continue_on(self, path: str) -> None:
        """Open another page with the position that is shown."""
        start = self._walked.played.start or None
        moves = " ".join(self._walked.words[: self._ply]) or None
        ui.navigate.to(self._visit.link(path, start=start, moves=moves))

    def _download(self, file: RecordFormat) -> None:
        name = f"{self._walked.played.game_uid}.{file.suffix}"
        ui.download.content(self._record, name, file.media_type)


def _here(ply: int) -> dict[str, Any]:
    """Return the vertical line of the curve at the ply that is shown."""
    return {
        "symbol": "none",
        "silent": True,
        "animation": False,
        "label": {"show": False},
        "data": [{"xAxis": ply}],
    }
