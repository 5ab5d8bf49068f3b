"""Passwords, tokens and certificates: files to make, check, read, and read again after a change.

A secret is never in the environment, in an argument, in a log or in an error; only the path of its
file is. ``python -m zerofleet.secrets DIR`` makes everything that one fleet needs.
"""
