from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DescribeRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DescribeResponse(_message.Message):
    __slots__ = ("game", "num_actions", "observation_shape", "run", "best", "versions", "num_simulations", "max_simulations")
    GAME_FIELD_NUMBER: _ClassVar[int]
    NUM_ACTIONS_FIELD_NUMBER: _ClassVar[int]
    OBSERVATION_SHAPE_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    BEST_FIELD_NUMBER: _ClassVar[int]
    VERSIONS_FIELD_NUMBER: _ClassVar[int]
    NUM_SIMULATIONS_FIELD_NUMBER: _ClassVar[int]
    MAX_SIMULATIONS_FIELD_NUMBER: _ClassVar[int]
    game: str
    num_actions: int
    observation_shape: _containers.RepeatedScalarFieldContainer[int]
    run: str
    best: Model
    versions: _containers.RepeatedScalarFieldContainer[int]
    num_simulations: int
    max_simulations: int
    def __init__(self, game: _Optional[str] = ..., num_actions: _Optional[int] = ..., observation_shape: _Optional[_Iterable[int]] = ..., run: _Optional[str] = ..., best: _Optional[_Union[Model, _Mapping[str, object]]] = ..., versions: _Optional[_Iterable[int]] = ..., num_simulations: _Optional[int] = ..., max_simulations: _Optional[int] = ...) -> None: ...

class Position(_message.Message):
    __slots__ = ("game", "actions", "action_strings", "sgf")
    GAME_FIELD_NUMBER: _ClassVar[int]
    ACTIONS_FIELD_NUMBER: _ClassVar[int]
    ACTION_STRINGS_FIELD_NUMBER: _ClassVar[int]
    SGF_FIELD_NUMBER: _ClassVar[int]
    game: str
    actions: _containers.RepeatedScalarFieldContainer[int]
    action_strings: _containers.RepeatedScalarFieldContainer[str]
    sgf: str
    def __init__(self, game: _Optional[str] = ..., actions: _Optional[_Iterable[int]] = ..., action_strings: _Optional[_Iterable[str]] = ..., sgf: _Optional[str] = ...) -> None: ...

class Model(_message.Message):
    __slots__ = ("run", "version")
    RUN_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    run: str
    version: str
    def __init__(self, run: _Optional[str] = ..., version: _Optional[str] = ...) -> None: ...

class PredictRequest(_message.Message):
    __slots__ = ("position", "model")
    POSITION_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    position: Position
    model: Model
    def __init__(self, position: _Optional[_Union[Position, _Mapping[str, object]]] = ..., model: _Optional[_Union[Model, _Mapping[str, object]]] = ...) -> None: ...

class Prior(_message.Message):
    __slots__ = ("action", "action_string", "prior")
    ACTION_FIELD_NUMBER: _ClassVar[int]
    ACTION_STRING_FIELD_NUMBER: _ClassVar[int]
    PRIOR_FIELD_NUMBER: _ClassVar[int]
    action: int
    action_string: str
    prior: float
    def __init__(self, action: _Optional[int] = ..., action_string: _Optional[str] = ..., prior: _Optional[float] = ...) -> None: ...

class PredictResponse(_message.Message):
    __slots__ = ("model", "to_play", "value", "priors")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    TO_PLAY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    PRIORS_FIELD_NUMBER: _ClassVar[int]
    model: Model
    to_play: int
    value: float
    priors: _containers.RepeatedCompositeFieldContainer[Prior]
    def __init__(self, model: _Optional[_Union[Model, _Mapping[str, object]]] = ..., to_play: _Optional[int] = ..., value: _Optional[float] = ..., priors: _Optional[_Iterable[_Union[Prior, _Mapping[str, object]]]] = ...) -> None: ...

class SearchOptions(_message.Message):
    __slots__ = ("num_simulations", "leaves", "seed", "noise")
    NUM_SIMULATIONS_FIELD_NUMBER: _ClassVar[int]
    LEAVES_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    NOISE_FIELD_NUMBER: _ClassVar[int]
    num_simulations: int
    leaves: int
    seed: int
    noise: bool
    def __init__(self, num_simulations: _Optional[int] = ..., leaves: _Optional[int] = ..., seed: _Optional[int] = ..., noise: _Optional[bool] = ...) -> None: ...

class SearchRequest(_message.Message):
    __slots__ = ("position", "model", "options")
    POSITION_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    position: Position
    model: Model
    options: SearchOptions
    def __init__(self, position: _Optional[_Union[Position, _Mapping[str, object]]] = ..., model: _Optional[_Union[Model, _Mapping[str, object]]] = ..., options: _Optional[_Union[SearchOptions, _Mapping[str, object]]] = ...) -> None: ...

class AnalyzeRequest(_message.Message):
    __slots__ = ("search", "every_simulations", "every_seconds")
    SEARCH_FIELD_NUMBER: _ClassVar[int]
    EVERY_SIMULATIONS_FIELD_NUMBER: _ClassVar[int]
    EVERY_SECONDS_FIELD_NUMBER: _ClassVar[int]
    search: SearchRequest
    every_simulations: int
    every_seconds: float
    def __init__(self, search: _Optional[_Union[SearchRequest, _Mapping[str, object]]] = ..., every_simulations: _Optional[int] = ..., every_seconds: _Optional[float] = ...) -> None: ...

class Child(_message.Message):
    __slots__ = ("action", "action_string", "visit_count", "prior", "q_value", "principal_variation")
    ACTION_FIELD_NUMBER: _ClassVar[int]
    ACTION_STRING_FIELD_NUMBER: _ClassVar[int]
    VISIT_COUNT_FIELD_NUMBER: _ClassVar[int]
    PRIOR_FIELD_NUMBER: _ClassVar[int]
    Q_VALUE_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_VARIATION_FIELD_NUMBER: _ClassVar[int]
    action: int
    action_string: str
    visit_count: int
    prior: float
    q_value: float
    principal_variation: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, action: _Optional[int] = ..., action_string: _Optional[str] = ..., visit_count: _Optional[int] = ..., prior: _Optional[float] = ..., q_value: _Optional[float] = ..., principal_variation: _Optional[_Iterable[int]] = ...) -> None: ...

class SearchResponse(_message.Message):
    __slots__ = ("model", "to_play", "simulations", "root_value", "network_value", "best_action", "best_action_string", "children", "done")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    TO_PLAY_FIELD_NUMBER: _ClassVar[int]
    SIMULATIONS_FIELD_NUMBER: _ClassVar[int]
    ROOT_VALUE_FIELD_NUMBER: _ClassVar[int]
    NETWORK_VALUE_FIELD_NUMBER: _ClassVar[int]
    BEST_ACTION_FIELD_NUMBER: _ClassVar[int]
    BEST_ACTION_STRING_FIELD_NUMBER: _ClassVar[int]
    CHILDREN_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    model: Model
    to_play: int
    simulations: int
    root_value: float
    network_value: float
    best_action: int
    best_action_string: str
    children: _containers.RepeatedCompositeFieldContainer[Child]
    done: bool
    def __init__(self, model: _Optional[_Union[Model, _Mapping[str, object]]] = ..., to_play: _Optional[int] = ..., simulations: _Optional[int] = ..., root_value: _Optional[float] = ..., network_value: _Optional[float] = ..., best_action: _Optional[int] = ..., best_action_string: _Optional[str] = ..., children: _Optional[_Iterable[_Union[Child, _Mapping[str, object]]]] = ..., done: _Optional[bool] = ...) -> None: ...

class PlayRequest(_message.Message):
    __slots__ = ("position", "model", "options", "temperature")
    POSITION_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    TEMPERATURE_FIELD_NUMBER: _ClassVar[int]
    position: Position
    model: Model
    options: SearchOptions
    temperature: float
    def __init__(self, position: _Optional[_Union[Position, _Mapping[str, object]]] = ..., model: _Optional[_Union[Model, _Mapping[str, object]]] = ..., options: _Optional[_Union[SearchOptions, _Mapping[str, object]]] = ..., temperature: _Optional[float] = ...) -> None: ...

class PlayResponse(_message.Message):
    __slots__ = ("model", "action", "action_string", "root_value", "simulations")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    ACTION_STRING_FIELD_NUMBER: _ClassVar[int]
    ROOT_VALUE_FIELD_NUMBER: _ClassVar[int]
    SIMULATIONS_FIELD_NUMBER: _ClassVar[int]
    model: Model
    action: int
    action_string: str
    root_value: float
    simulations: int
    def __init__(self, model: _Optional[_Union[Model, _Mapping[str, object]]] = ..., action: _Optional[int] = ..., action_string: _Optional[str] = ..., root_value: _Optional[float] = ..., simulations: _Optional[int] = ...) -> None: ...
