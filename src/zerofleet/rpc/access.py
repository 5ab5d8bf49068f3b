"""Which token may call what."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from zerofleet.errors import PermissionDeniedError, UnauthenticatedError
from zerofleet.rpc.methods import INFERENCE, PLAYER
from zerofleet.secrets.tokens import Role, Token, find_token

HEALTH = "/grpc.health.v1.Health/"

_ANYBODY: frozenset[Role] = frozenset({"worker", "client"})
_TENSORS = (
    "ServerLive",
    "ServerReady",
    "ModelReady",
    "ServerMetadata",
    "ModelMetadata",
    "ModelConfig",
    "ModelInfer",
)
_PLAYER = ("Describe", "Predict", "Search", "Analyze", "Play")

MAY_CALL: Mapping[str, frozenset[Role]] = MappingProxyType(
    {f"/{INFERENCE}/{name}": _ANYBODY for name in _TENSORS}
    | {f"/{INFERENCE}/ModelStreamInfer": frozenset[Role]({"worker"})}
    | {f"/{PLAYER}/{name}": frozenset[Role]({"client"}) for name in _PLAYER}
)
"""Methods that not only ``admin`` may call. Whatever is not listed (statistics, the index of
models, reflection, what is added later) is for ``admin`` alone, and health is for everybody."""


def check_access(tokens: Iterable[Token], method: str, authorization: Sequence[str]) -> Token:
    """The token of a call that may be made.

    Args:
        tokens: that are accepted.
        method: its path, such as ``/zerofleet.v1.Player/Play``.
        authorization: the values of the metadata of that name.

    Raises:
        UnauthenticatedError: there is no token, or nobody knows it.
        PermissionDeniedError: its role may not call this method.
    """
    if len(authorization) != 1:
        raise UnauthenticatedError("this server wants one token: authorization: Bearer TOKEN")
    scheme, _, presented = authorization[0].partition(" ")
    token = find_token(tokens, presented.strip()) if scheme.lower() == "bearer" else None
    if token is None:
        raise UnauthenticatedError("this server does not know the token that was sent")
    if token.role != "admin" and token.role not in MAY_CALL.get(method, frozenset()):
        raise PermissionDeniedError(
            f"the token '{token.name}' has the role {token.role}, which may not call {method}"
        )
    return token
