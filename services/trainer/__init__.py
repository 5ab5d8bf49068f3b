"""The trainer: reads finished games, trains the network, publishes candidate models.

Learning itself is the library ``zerofleet.learning``.

- ``service``: wires everything, and runs the loop in a thread; ``trainer``: the loop.
- ``checkpoints``: the state on disk; ``state``: what it holds, and taking over a run;
  ``trainer_stores``: stores and folders, and how the loop waits for them.
- ``candidates``: a model file, then its row; ``variant_requests``: the same model in fewer bits,
  made and judged on positions of the window, or of random play.
- ``recorder``: rows and TensorBoard curves of the measurements.
- ``forgetting``: removes old searches and files of old models, as ``[retention]`` says.
- ``team``: several processes that train one network, by torchrun.
- ``metrics``: the trainer's figures for Prometheus.
"""
