"""The player's dataclasses to messages and back."""

from __future__ import annotations

from zerofleet.errors import InvalidRequestError
from zerofleet.rpc.player_backend import (
    Actions,
    PlayedAction,
    PlayerDescription,
    PositionPrediction,
    SearchChild,
    SearchOptions,
    SearchTable,
    Sgf,
)
from zerofleet.rpc.schema import player as pb

# The longest games there are take some kilobytes; of more, each byte would be a Python object.
MAX_POSITION_BYTES = 1 << 20


def encode_description(description: PlayerDescription) -> pb.DescribeResponse:
    """A description as a message."""
    return pb.DescribeResponse(
        game=description.game,
        num_actions=description.num_actions,
        observation_shape=description.observation_shape,
        run=description.run,
        best=_model(description.run, "" if description.best is None else description.best),
        versions=description.versions,
        num_simulations=description.num_simulations,
        max_simulations=description.max_simulations,
    )


def decode_description(response: pb.DescribeResponse) -> PlayerDescription:
    """A message as a description."""
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
    )


def encode_position(game: str, actions: Actions) -> pb.Position:
    """A position message; all actions are numbers, or all are strings, or they are SGF.

    Raises:
        InvalidRequestError: none of these.
    """
    if isinstance(actions, Sgf):
        if not actions.text:
            raise InvalidRequestError("not SGF: the file is empty")
        if isinstance(actions.text, str):
            return pb.Position(game=game, sgf=actions.text)
        return pb.Position(game=game, sgf_file=actions.text)
    position = pb.Position(game=game)
    try:
        for action in actions:
            if isinstance(action, str):
                position.action_strings.append(action)
            else:
                position.actions.append(int(action))
    except (TypeError, ValueError) as error:
        raise InvalidRequestError(
            f"{repr(list(actions))[:200]} are not actions: {str(error)[:200]}"
        ) from error
    decode_actions(position)
    return position


def decode_actions(position: pb.Position) -> Actions:
    """The actions of a position message.

    Raises:
        InvalidRequestError: more than one kind is given, or the message is too large.
    """
    if position.ByteSize() > MAX_POSITION_BYTES:
        raise InvalidRequestError(
            f"the position has {position.ByteSize()} bytes: at most {MAX_POSITION_BYTES} are read"
        )
    sgf = position.sgf or position.sgf_file
    given = (position.actions, position.action_strings, position.sgf, position.sgf_file)
    if sum(map(bool, given)) > 1:
        raise InvalidRequestError("give one of actions, action_strings, sgf, sgf_file")
    if sgf:
        return Sgf(sgf)
    return list(position.action_strings) or list(position.actions)


def encode_options(options: SearchOptions) -> pb.SearchOptions:
    """A message of options.

    Raises:
        InvalidRequestError: a number that the message cannot hold.
    """
    try:
        return pb.SearchOptions(
            num_simulations=options.num_simulations or 0,
            leaves=options.leaves,
            seed=options.seed,
            noise=options.noise,
        )
    except (TypeError, ValueError) as error:
        raise InvalidRequestError(f"search options {options}: {error}") from error


def decode_options(options: pb.SearchOptions) -> SearchOptions:
    """Options, with 0 as unset."""
    return SearchOptions(
        num_simulations=options.num_simulations or None,
        leaves=options.leaves or 1,
        seed=options.seed if options.HasField("seed") else None,
        noise=options.noise,
    )


def encode_prediction(prediction: PositionPrediction) -> pb.PredictResponse:
    """A prediction as a message."""
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
    """A message as a prediction."""
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
    """A search table as a message."""
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
    """A message as a search table."""
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
    """A chosen action as a message."""
    return pb.PlayResponse(
        model=_model(played.run, played.version),
        action=played.action,
        action_string=played.action_string,
        root_value=played.root_value,
        simulations=played.simulations,
    )


def decode_played(response: pb.PlayResponse) -> PlayedAction:
    """A message as a chosen action."""
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
