"""Exported models: their store, the check before they count, the session that runs them.

- ``model_store``: where published models are kept. ``folder`` and ``bucket`` are the two kinds:
  files named by their sha256, and a Triton repository next to them.
- ``graph``: the interface of a model file, and what it may contain.
- ``runtime``: ONNX Runtime and its execution providers; ``driver``: NVIDIA's driver; ``session``:
  two arrays in, two arrays out.
- ``check``: ``python -m zerofleet.models.check``, the separate process that must load a file before
  it is published.
- ``quantize``: the same model in fewer bits; it needs onnx.
- ``variant``: ``python -m zerofleet.models.variant``, the separate process that makes such a model
  and measures it.
- ``fastest``: the choice between a model's precisions by speed.
- ``publish``: files first, rows second.

Nothing is imported here, so that a process pays only for the parts it uses.
"""
