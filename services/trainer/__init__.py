"""The trainer: reads finished games, trains the network, publishes candidate models.

- ``window``: the recent games, read in commit order, with a part held out.
- ``bucket``: how much training the games have paid for.
- ``learner``: SGD steps and what they are measured by.
- ``checkpoints``: the state for resuming.
- ``publisher``: a model file, then its row.
- ``state``: what a checkpoint holds, and resuming from it.
- ``trainer``: the loop of it all; ``patience`` and ``pulse``: how it waits and says so.
- ``service``: all of it wired; ``exporter``: its figures for Prometheus.
"""
