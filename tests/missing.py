"""What tests need and a machine may lack."""

import os
from typing import NoReturn

import pytest


def is_missing(what: str, needed: str) -> NoReturn:
    """Skip for want of something; end where it is needed.

    Args:
        what: is missing, and what to do.
        needed: variable of the environment that the target of these tests sets.
    """
    if os.environ.get(needed):
        pytest.exit(what, returncode=2)
    pytest.skip(what)
