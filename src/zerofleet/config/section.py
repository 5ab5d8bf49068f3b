"""What every section of the run file is."""

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A section of the run file: immutable, and strict about its keys and its numbers."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False
    )
