"""The trainer: reads finished games, trains the network, publishes candidate models.

- ``window``: the recent games, read in commit order, with a part held out.
- ``bucket``: how much training the games have paid for; ``schedule``: rates and window sizes.
- ``learner``: SGD steps and what they are measured by; ``precision``: in how many bits.
- ``team``: several processes that train one network, by torchrun.
- ``measurement``, ``recorder``: is it learning; ``overfit``: does it only learn by heart.
- ``checkpoints``: the state for resuming.
- ``publisher``: a model file, then its row; ``variants``: the same model in fewer bits, made and
  judged on positions of the window, or of ``random_play``.
- ``state``: what a checkpoint holds, and resuming from it.
- ``trainer``: the loop of it all; ``patience`` and ``pulse``: how it waits and says so.
- ``resignation``: v_resign, computed again now and then.
- ``service``: all of it wired; ``exporter`` and ``board``: its figures, for Prometheus and
  TensorBoard.
"""
