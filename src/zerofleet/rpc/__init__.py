"""The wire: the Open Inference Protocol for tensors, ``zerofleet.v1.Player`` for positions.

Messages stay inside this package; its interface uses arrays and frozen dataclasses. Import from the
submodules, because a probe or a client needs only few of them.
"""
