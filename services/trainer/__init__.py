"""The trainer: reads finished games, trains the network, publishes candidate models.

The learning algorithm is the library ``zerofleet.learning``.

- ``service``: wires everything, runs the training loop in a thread, and reports its figures to
  heartbeats and Prometheus.
- ``trainer``: the training loop.
- ``checkpoints``: the state on disk, taking over a run, and waiting for stores and folders.
- ``publishing``: a model's files, then its row; its quantized variants, calibrated and checked on
  positions of the window or of random play.
- ``recorder``: rows and TensorBoard curves of the measurements.
- ``forgetting``: removes old searches and files of old models, as ``[retention]`` says.
- ``team``: several processes, started by torchrun, that train one network.
"""
