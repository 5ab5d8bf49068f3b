"""Base classes of the run file and its sections."""

from typing import cast

from pydantic import BaseModel, ConfigDict, ValidationInfo, field_validator
from pydantic.config import JsonDict

BASIC: JsonDict = {"basic": True}
"""Marks a key that many runs set. Every other key is advanced."""

_MOST = 2**31 - 1  # largest integer of the core, and of an integer column in Postgres
_MOST_SAMPLES = 2**63 - 1


class RunFileTable(BaseModel):
    """A table of the run file: immutable, and strict about its keys and the types of values."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        use_attribute_docstrings=True,
        allow_inf_nan=False,
        strict=True,
    )

    @field_validator("*", mode="before")
    @classmethod
    def _accept_toml_types(cls, value: object) -> object:
        """Allow ``1e6`` for a whole number, and a list, which is TOML's tuple."""
        if isinstance(value, list):
            return tuple(map(_whole, cast("list[object]", value)))
        return _whole(value)


class Section(RunFileTable):
    """A section of the run file."""

    @field_validator("*")
    @classmethod
    def _whole_numbers_fit(cls, value: object, info: ValidationInfo) -> object:
        most = _MOST_SAMPLES if str(info.field_name).endswith("_samples") else _MOST
        if isinstance(value, int) and value > most:
            raise ValueError(f"Input should be less than or equal to {most}")
        return value


def _whole(value: object) -> object:
    """Return a float without a fraction as an integer, which is valid for both types of keys."""
    is_whole = isinstance(value, float) and value.is_integer() and abs(value) < 2**63
    return int(cast("float", value)) if is_whole else value
