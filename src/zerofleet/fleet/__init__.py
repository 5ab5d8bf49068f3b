"""A fleet as its heartbeats describe it.

- ``figures``: the numbers that each service reports; ``heartbeat``: these in Redis, now and in the
  last day.
- ``need``: how many replicas would be useful, and advice for a person.
- ``report``: a run's figures and the status of its services, in words.
- ``disk``: disk usage of a run, and the disk limit.
- ``usage``: duration and CPU time of a run.
"""
