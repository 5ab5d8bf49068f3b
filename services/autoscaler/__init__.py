"""The autoscaler: recommends numbers of self-play workers and inference replicas."""
