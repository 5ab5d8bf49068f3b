"""The table of errors and status codes."""

from __future__ import annotations

import pytest
from grpc import StatusCode

from zerofleet import errors
from zerofleet.rpc import methods

ROUND_TRIPS = [
    (errors.InvalidRequestError, StatusCode.INVALID_ARGUMENT),
    (errors.ModelNotFoundError, StatusCode.NOT_FOUND),
    (errors.IncompatibleModelError, StatusCode.FAILED_PRECONDITION),
    (errors.OverloadedError, StatusCode.RESOURCE_EXHAUSTED),
    (errors.InferenceUnavailableError, StatusCode.UNAVAILABLE),
]


@pytest.mark.parametrize(("kind", "code"), ROUND_TRIPS)
def test_round_trip(kind: type[errors.ZerofleetError], code: StatusCode) -> None:
    assert methods.code_of(kind("why")) is code
    found = methods.error_of(code, "why")
    assert type(found) is kind
    assert str(found) == "why"


def test_what_only_goes_one_way() -> None:
    assert methods.code_of(errors.IllegalActionError()) is StatusCode.INVALID_ARGUMENT
    assert methods.code_of(errors.StoreUnavailableError()) is StatusCode.UNAVAILABLE
    assert methods.code_of(errors.ZerofleetError()) is StatusCode.INTERNAL
    assert methods.code_of(KeyError("secret")) is StatusCode.INTERNAL


@pytest.mark.parametrize("code", StatusCode)
def test_every_code_has_an_error(code: StatusCode) -> None:
    assert isinstance(methods.error_of(code, "why"), errors.ZerofleetError)


@pytest.mark.parametrize("code", [StatusCode.INTERNAL, StatusCode.DEADLINE_EXCEEDED])
def test_what_is_not_foreseen_may_be_tried_again(code: StatusCode) -> None:
    assert isinstance(methods.error_of(code, "why"), errors.InferenceUnavailableError)


def test_a_message_over_the_limit_is_no_overload() -> None:
    details = "Received message larger than max (80000000 vs. 67108864)"
    found = methods.error_of(StatusCode.RESOURCE_EXHAUSTED, details)
    assert isinstance(found, errors.InvalidRequestError)


def test_an_unforeseen_error_tells_nothing_of_the_inside() -> None:
    assert "secret" not in methods.message_of(KeyError("secret"))
    assert methods.message_of(errors.OverloadedError("full")) == "full"


def test_names_of_codes() -> None:
    assert methods.code_from_name("NOT_FOUND") is StatusCode.NOT_FOUND
    assert methods.code_from_name("") is StatusCode.INTERNAL


def test_long_errors_are_cut() -> None:
    """They are metadata, which a client's gRPC refuses when they are too large."""
    assert methods.message_of(errors.InvalidRequestError("x" * 5_000)) == "x" * 1_000 + "..."
    assert methods.message_of(errors.InvalidRequestError("x" * 1_000)) == "x" * 1_000
