"""Every error zerofleet raises on purpose, one class for each reaction of the caller.

- ``ZerofleetError``
    - ``ConfigError``                bad input by a person: one line on stderr, exit status 2
    - ``IllegalActionError``         also a ``ValueError``: an action the rules forbid
    - ``InvalidRequestError``        also a ``ValueError``: a request that can never succeed as sent
    - ``ModelNotFoundError``         also a ``LookupError``: no such model or version
    - ``IncompatibleModelError``     a model file that is damaged, mislabelled or for another game
    - ``RecordRejectedError``        also a ``ValueError``: a game record that does not replay
    - ``OverloadedError``            the queue is full: back off, then try again
    - ``InferenceUnavailableError``  try again, perhaps on another server
    - ``AccessDeniedError``          the other side refuses who we are, or what we may do
        - ``UnauthenticatedError``   no token, or one that the server does not know (yet)
        - ``PermissionDeniedError``  the token's role may not call this
    - ``StoreUnavailableError``      Postgres, Redis or a bucket is down: keep the data, try again
        - ``StoreReadOnlyError``     half up: it answers but refuses writes; report its reason
            - ``StoreFullError``     its disk is full: a person must free space
        - ``StoreLoginError``        it refuses the login: a person must correct it
        - ``RunNotRegisteredError``  Postgres has no row of the run yet: another service adds it
    - ``StaleEpochError``            a newer process holds this role or game: stop writing
"""

import errno
import os

_NO_ROOM = os.strerror(errno.ENOSPC)


class ZerofleetError(Exception):
    """Base of all errors raised on purpose; a service reports one that ends it in a single line."""

    exit_code = 1


class ConfigError(ZerofleetError):
    """Input that a person must correct; the message names the setting, its value and a remedy.

    Args:
        mistakes: one line for each mistake. Several are listed one below the other.
    """

    exit_code = 2

    def __init__(self, *mistakes: str) -> None:
        self.mistakes = tuple(dict.fromkeys(mistakes))
        lines = "".join(f"\n  {mistake}" for mistake in self.mistakes)
        is_list = len(self.mistakes) > 1
        super().__init__(f"{len(self.mistakes)} mistakes:{lines}" if is_list else lines.strip())


class IllegalActionError(ZerofleetError, ValueError):
    """An action that the rules of the game forbid in this position."""


class InvalidRequestError(ZerofleetError, ValueError):
    """A request that can never succeed as it was sent."""


class ModelNotFoundError(ZerofleetError, LookupError):
    """No such model, or no such version of a model."""


class IncompatibleModelError(ZerofleetError):
    """A model file that is damaged, is not what its name says, or does not fit the game."""


class RecordRejectedError(ZerofleetError, ValueError):
    """A game record that does not replay under the rules."""


class OverloadedError(ZerofleetError):
    """The other side has no room for more work now: back off, then try again."""


class InferenceUnavailableError(ZerofleetError):
    """The inference service does not answer; the request was pure and may be sent again."""


class AccessDeniedError(ZerofleetError):
    """The other side refuses who we are, or what we may do: a person must correct it."""

    exit_code = 2


class UnauthenticatedError(AccessDeniedError):
    """No token, or one that the server does not know; a new one may become known soon."""


class PermissionDeniedError(AccessDeniedError):
    """The role of this token may not call this method, now or later."""


class StoreUnavailableError(ZerofleetError):
    """Postgres, Redis or the bucket of models is down: keep what is not stored and try again."""


class StoreReadOnlyError(StoreUnavailableError):
    """Postgres or Redis is half up: it answers and refuses writes; the message says why."""


class StoreFullError(StoreReadOnlyError):
    """The disk of Postgres or Redis is full: keep what is not stored, and report which disk."""


class RunNotRegisteredError(StoreUnavailableError):
    """The run has no row in Postgres yet: wait for the service that registers it."""


class StoreLoginError(StoreUnavailableError):
    """A store refuses the login: keep what is not stored, and report that a person must act."""


class StaleEpochError(ZerofleetError):
    """A newer process holds this role or this game: stop writing."""


def is_disk_full(message: str) -> bool:
    """Return whether a message of another program reports a disk without free space."""
    return _NO_ROOM in message and "shared memory" not in message


def shared_memory_full(message: str) -> str | None:
    """Return what to do if a message of Postgres reports full shared memory; None if it does not.

    Postgres uses the error code of a full disk for both.
    """
    if _NO_ROOM not in message or "shared memory" not in message:
        return None
    return (
        "its shared memory, not its disk, is full: make /dev/shm larger (docker run --shm-size=256m"
        ", shm_size in Compose, in Kubernetes an emptyDir of medium Memory at /dev/shm)"
    )
