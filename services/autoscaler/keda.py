"""What KEDA is answered: for each trigger a metric that is the number of replicas itself."""

from __future__ import annotations

import difflib
from enum import StrEnum

from zerofleet.errors import InvalidRequestError, StoreUnavailableError
from zerofleet.rpc.scaler import ScaledObject
from zerofleet.services.autoscaler.watch import Watch

_OURS = ("role", "run")
# KEDA passes all that stands under the trigger's metadata, with what it reads itself.
_KEDAS = (
    *("scalerAddress", "enableTLS", "unsafeSsl", "tlsCertFile"),
    *("caCert", "tlsClientCert", "tlsClientKey"),
)


class Role(StrEnum):
    """Whose replicas are counted."""

    SELFPLAY = "selfplay"
    INFERENCE = "inference"


class KedaScaler:
    """Answers for one run; a ``zerofleet.rpc.scaler.Scaler``.

    Args:
        run: name of the run that is watched.
        watch: has the newest answers.
    """

    def __init__(self, run: str, watch: Watch) -> None:
        self._run = run
        self._watch = watch

    def metric(self, scaled: ScaledObject) -> str:
        """The name of the number of replicas of the trigger's role.

        Raises:
            InvalidRequestError: the trigger's metadata is not right.
        """
        return f"zerofleet-{read_trigger(scaled, self._run).value}-replicas"

    def replicas(self, scaled: ScaledObject) -> int:
        """That number.

        Raises:
            InvalidRequestError: the trigger's metadata is not right.
            StoreUnavailableError: the fleet is not known yet, and a guess would be worse than
                nothing: without a metric Kubernetes keeps the replicas that there are.
        """
        role, answers = read_trigger(scaled, self._run), self._watch.answers
        if answers is None:
            raise StoreUnavailableError(
                "how many replicas are useful is not known yet: "
                + (self._watch.fleet.missing or "the fleet is watched for a while first")
            )
        return (answers.selfplay if role is Role.SELFPLAY else answers.inference).count


def read_trigger(scaled: ScaledObject, run: str) -> Role:
    """The role that a trigger names.

    Args:
        scaled: the object that it belongs to.
        run: that is watched here.

    Raises:
        InvalidRequestError: a key is missing or unknown, or its value is none that is known; the
            message names the object, the key, the value and the way out.
    """
    place = f"scalerMetadata of {scaled.namespace}/{scaled.name}"
    for key in scaled.metadata:
        if key not in _OURS and key not in _KEDAS:
            near = difflib.get_close_matches(key, (*_OURS, *_KEDAS), n=1, cutoff=0.5)
            hint = f"did you mean '{near[0]}'?" if near else f"ours are {', '.join(_OURS)}"
            raise InvalidRequestError(f"{place}: unknown key '{key}': {hint}")
    roles = " or ".join(f"'{role}'" for role in Role)
    found = scaled.metadata.get("role")
    if found is None:
        raise InvalidRequestError(f"{place}: the key 'role' is missing: give {roles}")
    if found not in set(Role):
        raise InvalidRequestError(f"{place}: role = '{found}': give {roles}")
    asked = scaled.metadata.get("run", run)
    if asked != run:
        raise InvalidRequestError(
            f"{place}: run = '{asked}', but this autoscaler watches '{run}': give it its own, or "
            "the address of the other run's"
        )
    return Role(found)
