"""Passwords, tokens and certificates: files that are read, checked, made, and read again.

A secret is never in the environment, in an argument, in a log or in an error: what travels is the
path of its file. ``python -m zerofleet.secrets DIR`` makes all that one fleet needs.
"""
