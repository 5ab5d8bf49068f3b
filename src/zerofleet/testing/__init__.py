"""Fakes for tests of services and of programs that use zerofleet: public and deterministic."""

from zerofleet.testing.predictors import HashPredictor, MarkerPredictor, UniformPredictor

__all__ = ["HashPredictor", "MarkerPredictor", "UniformPredictor"]
