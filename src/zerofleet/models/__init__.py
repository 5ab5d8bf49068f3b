"""Exported models: their folder, the check before they count, the session that runs them.

- ``zerofleet.models.model_store``: where published models are kept; ``folder`` and ``bucket``
  are the two kinds of it: files named by their sha256, and a Triton repository beside them.
- ``zerofleet.models.graph``: what a model file may contain.
- ``zerofleet.models.session``: ONNX Runtime behind two arrays in, two arrays out.
- ``zerofleet.models.check``: ``python -m zerofleet.models.check``, the separate process that must
  load a file before it is published.
- ``zerofleet.models.quantize``, ``zerofleet.models.half``: the same model in fewer bits; they need
  onnx, as do ``tower`` and ``calibration`` behind them.
- ``zerofleet.models.make_variant``: ``python -m zerofleet.models.make_variant``, the separate
  process that makes such a variant and measures it; ``zerofleet.models.variant``: what it is asked
  and answers.
- ``zerofleet.models.publish``: files first, rows second.

Nothing is imported here, so that a process pays only for the parts it uses.
"""
