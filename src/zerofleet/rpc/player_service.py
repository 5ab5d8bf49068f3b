"""The service ``zerofleet.v1.Player``: its dataclasses, their messages, and the servicer.

The inference service implements ``PlayerBackend`` over its own models. Programs call the service
with ``zerofleet.client``.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypedDict

import grpc.aio

from zerofleet.errors import InvalidRequestError, OverloadedError
from zerofleet.rpc.codec import BEST
from zerofleet.rpc.schema import player as pb

# The longest games take some kilobytes; beyond this, each byte would become a Python object.
MAX_POSITION_BYTES = 1 << 20
_SGF_AND_START = "an SGF has a start position of its own: give no other start"
_Context = grpc.aio.ServicerContext[Any, Any]

# A search waits for its client to read tables, and other searches wait for its slot.
_UNREAD_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Sgf:
    """A position as the main line of an SGF file, of Go or Othello."""

    text: str | bytes  # bytes: the unchanged file, whose encoding the server detects


Actions = Sequence[int] | Sequence[str] | Sgf
"""Actions from a start position, as numbers or in the game's notation, or a position as SGF."""


@dataclass(frozen=True, slots=True)
class PlayerDescription:
    """The game of a player, and its models."""

    game: str  # name with its rules
    num_actions: int
    observation_shape: tuple[int, int, int]  # planes, rows, columns
    run: str
    best: int | None  # the promoted version; None while there is none
    versions: tuple[int, ...]  # available ones, ascending
    num_simulations: int  # default of a search
    max_simulations: int  # upper limit of a search
    max_analysis_simulations: int  # upper limit of an analysis
    sets_up_positions: bool = False  # whether a position may have a start of its own


class SearchOptions(TypedDict, total=False):
    """Options of a search. They are keywords of the calls of ``zerofleet.client``."""

    simulations: int | None
    """Number of simulations; None or absent: as the server's run says."""
    leaves: int
    """Leaves of the tree evaluated together: more is faster and weaker; absent: 1."""
    seed: int | None
    """The same seed, model and position give the same table; None or absent: the server draws."""
    noise: bool
    """Whether Dirichlet noise is mixed into the root's priors, as in self-play; absent: no."""
    actions: Sequence[int]
    """Actions to search at the root, as if no others were legal; empty or absent: all of them."""


@dataclass(frozen=True, slots=True)
class PositionPrediction:
    """The network's prediction for a position."""

    run: str
    version: int
    to_play: int
    value: float  # in [-1, 1], for the player to move
    actions: tuple[int, ...]  # legal actions, ascending
    action_strings: tuple[str, ...]
    priors: tuple[float, ...]  # priors of ``actions``; their sum is 1


@dataclass(frozen=True, slots=True)
class SearchChild:
    """One legal action at the root of a search."""

    action: int
    action_string: str
    visit_count: int
    prior: float
    q_value: float | None  # for the player to move at the root; None while unvisited
    principal_variation: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SearchTable:
    """The table at the root of a search."""

    run: str
    version: int
    to_play: int
    simulations: int
    root_value: float  # for the player to move, after search
    network_value: float  # for the player to move, before search
    best_action: int
    best_action_string: str
    children: tuple[SearchChild, ...]  # by action, ascending
    done: bool

    @property
    def ranked(self) -> list[SearchChild]:
        """The children, best first: the action to play, then by visits and prior.

        The action to play need not be the most visited one; see ``best_action`` in player.proto.
        """
        return sorted(
            self.children,
            key=lambda child: (child.action != self.best_action, -child.visit_count, -child.prior),
        )


@dataclass(frozen=True, slots=True)
class PlayedAction:
    """The action a player chose."""

    run: str
    version: int
    action: int
    action_string: str
    root_value: float
    simulations: int


class PlayerBackend(Protocol):
    """Answers requests about positions.

    All methods raise ``InvalidRequestError`` for an unknown game, an illegal action (named, with
    its ply), a wrong start position, a finished game, or invalid options, and
    ``ModelNotFoundError``. An empty ``game`` or ``run`` means the server's, an empty ``start`` the
    usual start.
    """

    async def describe(self) -> PlayerDescription:
        """Return the game, and the available models."""
        ...

    async def predict(
        self,
        game: str,
        actions: Actions,
        *,
        start: str = "",
        run: str = "",
        version: str = BEST,
    ) -> PositionPrediction:
        """Return the network's prediction, without search."""
        ...

    async def search(
        self,
        game: str,
        actions: Actions,
        *,
        start: str = "",
        run: str = "",
        version: str = BEST,
        options: SearchOptions,
    ) -> SearchTable:
        """Return the table after a whole search."""
        ...

    def analyze(
        self,
        game: str,
        actions: Actions,
        *,
        start: str = "",
        run: str = "",
        version: str = BEST,
        options: SearchOptions,
        every_simulations: int = 0,
        every_seconds: float = 0.0,
    ) -> AsyncGenerator[SearchTable]:
        """Yield the table about every this many simulations or seconds while the search runs.

        With neither, after each tenth of the simulations. The search ends when the generator is
        closed.
        """
        ...

    async def play(
        self,
        game: str,
        actions: Actions,
        *,
        start: str = "",
        run: str = "",
        version: str = BEST,
        options: SearchOptions,
        temperature: float = 0.0,
    ) -> PlayedAction:
        """Choose an action: the best, or at a temperature a sample of the visits."""
        ...


def encode_description(description: PlayerDescription) -> pb.DescribeResponse:
    """Encode a description."""
    return pb.DescribeResponse(
        game=description.game,
        num_actions=description.num_actions,
        observation_shape=description.observation_shape,
        run=description.run,
        best=_model(description.run, "" if description.best is None else description.best),
        versions=description.versions,
        num_simulations=description.num_simulations,
        max_simulations=description.max_simulations,
        max_analysis_simulations=description.max_analysis_simulations,
        sets_up_positions=description.sets_up_positions,
    )


def decode_description(response: pb.DescribeResponse) -> PlayerDescription:
    """Decode a description."""
    planes, rows, columns = response.observation_shape
    return PlayerDescription(
        game=response.game,
        num_actions=response.num_actions,
        observation_shape=(planes, rows, columns),
        run=response.run,
        best=int(response.best.version) if response.best.version else None,
        versions=tuple(response.versions),
        num_simulations=response.num_simulations,
        max_simulations=response.max_simulations,
        max_analysis_simulations=response.max_analysis_simulations or response.max_simulations,
        sets_up_positions=response.sets_up_positions,
    )


def encode_position(game: str, actions: Actions, start: str = "") -> pb.Position:
    """Return a position message; all actions are numbers, or all are strings, or they are SGF.

    Args:
        game: game name; empty: the server's.
        actions: the actions that lead to the position.
        start: position that they begin at, in the game's notation; empty: the usual start.

    Raises:
        InvalidRequestError: the actions are none of these, an SGF has a start position besides its
            own, or the message takes too many bytes.
    """
    if isinstance(actions, Sgf):
        if start:
            raise InvalidRequestError(_SGF_AND_START)
        if not actions.text:
            raise InvalidRequestError("not SGF: the file is empty")
        if isinstance(actions.text, str):
            return pb.Position(game=game, sgf=actions.text)
        return pb.Position(game=game, sgf_file=actions.text)
    listed = list(actions)
    strings = [action for action in listed if isinstance(action, str)]
    if strings and len(strings) != len(listed):
        raise InvalidRequestError(
            f"{repr(listed)[:200]} are not actions: give all as numbers or all as strings"
        )
    try:
        if strings:
            position = pb.Position(game=game, action_strings=strings, start=start)
        else:
            numbers = [int(action) for action in listed]
            position = pb.Position(game=game, actions=numbers, start=start)
    except (TypeError, ValueError) as error:
        raise InvalidRequestError(
            f"{repr(listed)[:200]} are not actions: {str(error)[:200]}"
        ) from error
    _check_size(position)
    return position


def decode_actions(position: pb.Position) -> Actions:
    """Return the actions of a position message.

    Raises:
        InvalidRequestError: more than one kind is given, an SGF comes with a start, or the message
            is too large.
    """
    _check_size(position)
    sgf = position.sgf or position.sgf_file
    kinds = (position.actions, position.action_strings, position.sgf, position.sgf_file)
    if sum(map(bool, kinds)) > 1:
        raise InvalidRequestError("give one of actions, action_strings, sgf, sgf_file")
    if sgf and position.start:
        raise InvalidRequestError(_SGF_AND_START)
    if sgf:
        return Sgf(sgf)
    return list(position.action_strings) or list(position.actions)


def _check_size(position: pb.Position) -> None:
    if position.ByteSize() > MAX_POSITION_BYTES:
        raise InvalidRequestError(
            f"the position has {position.ByteSize()} bytes: at most {MAX_POSITION_BYTES} are read"
        )


def encode_options(options: SearchOptions) -> pb.SearchOptions:
    """Encode options.

    Raises:
        TypeError: there is no option of such a name.
        InvalidRequestError: a number that the message cannot hold.
    """
    known = SearchOptions.__annotations__
    if unknown := options.keys() - known.keys():
        raise TypeError(f"unexpected option '{min(unknown)}': a search has {', '.join(known)}")
    try:
        return pb.SearchOptions(
            num_simulations=options.get("simulations") or 0,
            leaves=options.get("leaves", 1),
            seed=options.get("seed"),
            noise=options.get("noise", False),
            actions=options.get("actions", ()),
        )
    except (TypeError, ValueError) as error:
        raise InvalidRequestError(f"search options {options}: {error}") from error


def decode_options(options: pb.SearchOptions) -> SearchOptions:
    """Decode options, with 0 as unset."""
    return SearchOptions(
        simulations=options.num_simulations or None,
        leaves=options.leaves or 1,
        seed=options.seed if options.HasField("seed") else None,
        noise=options.noise,
        actions=tuple(options.actions),
    )


def encode_prediction(prediction: PositionPrediction) -> pb.PredictResponse:
    """Encode a prediction."""
    response = pb.PredictResponse(
        model=_model(prediction.run, prediction.version),
        to_play=prediction.to_play,
        value=prediction.value,
    )
    rows = zip(prediction.actions, prediction.action_strings, prediction.priors, strict=True)
    for action, action_string, prior in rows:
        response.priors.add(action=action, action_string=action_string, prior=prior)
    return response


def decode_prediction(response: pb.PredictResponse) -> PositionPrediction:
    """Decode a prediction."""
    return PositionPrediction(
        run=response.model.run,
        version=int(response.model.version),
        to_play=response.to_play,
        value=response.value,
        actions=tuple(row.action for row in response.priors),
        action_strings=tuple(row.action_string for row in response.priors),
        priors=tuple(row.prior for row in response.priors),
    )


def encode_table(table: SearchTable) -> pb.SearchResponse:
    """Encode a search table."""
    response = pb.SearchResponse(
        model=_model(table.run, table.version),
        to_play=table.to_play,
        simulations=table.simulations,
        root_value=table.root_value,
        network_value=table.network_value,
        best_action=table.best_action,
        best_action_string=table.best_action_string,
        done=table.done,
    )
    for child in table.children:
        response.children.add(
            action=child.action,
            action_string=child.action_string,
            visit_count=child.visit_count,
            prior=child.prior,
            q_value=child.q_value,
            principal_variation=child.principal_variation,
        )
    return response


def decode_table(response: pb.SearchResponse) -> SearchTable:
    """Decode a search table."""
    return SearchTable(
        run=response.model.run,
        version=int(response.model.version),
        to_play=response.to_play,
        simulations=response.simulations,
        root_value=response.root_value,
        network_value=response.network_value,
        best_action=response.best_action,
        best_action_string=response.best_action_string,
        children=tuple(
            SearchChild(
                action=child.action,
                action_string=child.action_string,
                visit_count=child.visit_count,
                prior=child.prior,
                q_value=child.q_value if child.HasField("q_value") else None,
                principal_variation=tuple(child.principal_variation),
            )
            for child in response.children
        ),
        done=response.done,
    )


def encode_played(played: PlayedAction) -> pb.PlayResponse:
    """Encode a chosen action."""
    return pb.PlayResponse(
        model=_model(played.run, played.version),
        action=played.action,
        action_string=played.action_string,
        root_value=played.root_value,
        simulations=played.simulations,
    )


def decode_played(response: pb.PlayResponse) -> PlayedAction:
    """Decode a chosen action."""
    return PlayedAction(
        run=response.model.run,
        version=int(response.model.version),
        action=response.action,
        action_string=response.action_string,
        root_value=response.root_value,
        simulations=response.simulations,
    )


def _model(run: str, version: int | str) -> pb.Model:
    return pb.Model(run=run, version=str(version))


class PlayerServicer:
    """Methods have the schema's names; the interceptor turns errors into status codes."""

    def __init__(self, player: PlayerBackend) -> None:
        self._player = player

    async def Describe(self, request: pb.DescribeRequest, context: _Context) -> pb.DescribeResponse:  # noqa: N802
        """Return the game, and the available models."""
        return encode_description(await self._player.describe())

    async def Predict(self, request: pb.PredictRequest, context: _Context) -> pb.PredictResponse:  # noqa: N802
        """Return the network's prediction."""
        return encode_prediction(
            await self._player.predict(
                request.position.game,
                decode_actions(request.position),
                start=request.position.start,
                run=request.model.run,
                version=request.model.version or BEST,
            )
        )

    async def Search(self, request: pb.SearchRequest, context: _Context) -> pb.SearchResponse:  # noqa: N802
        """Run a whole search."""
        return encode_table(
            await self._player.search(
                request.position.game,
                decode_actions(request.position),
                start=request.position.start,
                run=request.model.run,
                version=request.model.version or BEST,
                options=decode_options(request.options),
            )
        )

    async def Analyze(self, request: pb.AnalyzeRequest, context: _Context) -> None:  # noqa: N802
        """Run a search and send its table in between, as long as the client reads."""
        search = request.search
        tables = self._player.analyze(
            search.position.game,
            decode_actions(search.position),
            start=search.position.start,
            run=search.model.run,
            version=search.model.version or BEST,
            options=decode_options(search.options),
            every_simulations=request.every_simulations,
            every_seconds=request.every_seconds,
        )
        # Closed here and now: the search must not outlive a client that disconnects.
        async with contextlib.aclosing(tables):
            async for table in tables:
                try:
                    async with asyncio.timeout(_UNREAD_SECONDS):
                        await context.write(encode_table(table))
                except TimeoutError as error:
                    raise OverloadedError(
                        f"no table was read for {_UNREAD_SECONDS:g} s: read, or request fewer"
                    ) from error

    async def Play(self, request: pb.PlayRequest, context: _Context) -> pb.PlayResponse:  # noqa: N802
        """Choose an action."""
        return encode_played(
            await self._player.play(
                request.position.game,
                decode_actions(request.position),
                start=request.position.start,
                run=request.model.run,
                version=request.model.version or BEST,
                options=decode_options(request.options),
                temperature=request.temperature,
            )
        )
