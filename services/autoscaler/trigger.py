"""The metadata of a trigger of KEDA: which keys there are, and what they may be."""

from __future__ import annotations

import difflib
from enum import StrEnum

from zerofleet.errors import InvalidRequestError
from zerofleet.rpc.scaler import ScaledObject


class Role(StrEnum):
    """Whose replicas are counted."""

    SELFPLAY = "selfplay"
    INFERENCE = "inference"


_OURS = ("role", "run")
# KEDA passes all that stands under the trigger's metadata, with what it reads itself.
_KEDAS = (
    *("scalerAddress", "enableTLS", "unsafeSsl", "tlsCertFile"),
    *("caCert", "tlsClientCert", "tlsClientKey"),
)


def trigger(scaled: ScaledObject, run: str) -> Role:
    """Read a trigger.

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
