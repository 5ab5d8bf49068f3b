"""Base class of the run file's sections."""

from pydantic import BaseModel, ConfigDict, ValidationInfo, field_validator
from pydantic.config import JsonDict

BASIC: JsonDict = {"basic": True}
"""Marks a key that many runs set. Every other key is advanced."""

_MOST = 2**31 - 1  # largest integer of the core, and of an integer column in Postgres
_MOST_SAMPLES = 2**63 - 1


class Section(BaseModel):
    """A section of the run file: immutable, and strict about its keys and its numbers."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False
    )

    @field_validator("*")
    @classmethod
    def _whole_numbers_fit(cls, value: object, info: ValidationInfo) -> object:
        most = _MOST_SAMPLES if str(info.field_name).endswith("_samples") else _MOST
        if isinstance(value, int) and value > most:
            raise ValueError(f"Input should be less than or equal to {most}")
        return value
