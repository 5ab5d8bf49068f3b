"""The wire: the Open Inference Protocol for tensors, ``zerofleet.v1.Player`` for positions.

Messages stay inside this package; what comes out are arrays and frozen dataclasses. Import from the
submodules: a probe and a client for people need little of all this.
"""
