"""The trainer: reads finished games, trains the network, publishes candidate models.

- ``window``: the recent games, read in commit order, with a part held out.
- ``train_bucket``: how much training the games have paid for, and how fast it could be spent;
  ``schedule``: rates and window sizes.
- ``learner``: SGD steps, in how many bits, and what they are measured by (``measurement``).
- ``team``: several processes that train one network, by torchrun.
- ``recorder``: rows and TensorBoard's curves of what is measured; ``overfit``: does it only learn
  by heart.
- ``checkpoints``: the state on disk; ``state``: what it holds, and taking over a run.
- ``publisher``: a model file, then its row; ``variants``: the same model in fewer bits, made and
  judged on positions of the window, or of random play.
- ``trainer``: the loop of it all; ``places``: its stores and folders, and how it waits for them.
- ``retention``: what is not needed any more is forgotten.
- ``service``: all of it wired, the loop in a thread; ``metrics``: its figures for Prometheus.
"""
