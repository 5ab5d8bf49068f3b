"""The autoscaler: says how many self-play workers and inference replicas are useful."""
