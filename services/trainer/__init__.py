"""The trainer: reads finished games, trains the network, publishes candidate models.

- ``window``: the recent games, read in commit order, with a part held out.
- ``train_bucket``: how much training the games have paid for, and how fast it could be spent;
  ``schedule``: rates and window sizes.
- ``learner``: SGD steps, in how many bits, and what they are measured by (``measurement``).
- ``team``: several processes that train one network, by torchrun.
- ``recorder``: rows and TensorBoard's curves of what is measured; ``overfit``: does it only learn
  by heart.
- ``checkpoints``: the state on disk; ``state``: what it holds, and taking over a run.
- ``candidates``: a model file, then its row; ``variant_requests``: the same model in fewer bits,
  made and judged on positions of the window, or of random play.
- ``trainer``: the loop; ``trainer_stores``: its stores and folders, and how it waits for them.
- ``forgetting``: old searches and the files of old models are removed, as ``[retention]`` says.
- ``service``: connects all of these, the loop in a thread; ``metrics``: its figures for Prometheus.
"""
