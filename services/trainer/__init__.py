"""The trainer: reads finished games, trains the network, publishes candidate models.

Learning itself is the library ``zerofleet.learning``.

- ``service``: wires everything, and runs the loop in a thread; ``trainer``: the loop.
- ``checkpoints``: the state on disk, taking over a run, and waiting for stores and folders.
- ``publishing``: a model's files, then its row; its variants in fewer bits, made and judged on
  positions of the window, or of random play.
- ``recorder``: rows and TensorBoard curves of the measurements.
- ``forgetting``: removes old searches and files of old models, as ``[retention]`` says.
- ``team``: several processes that train one network, by torchrun.
- ``metrics``: the trainer's figures for Prometheus.
"""
