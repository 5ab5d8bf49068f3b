"""A run on one machine: the stores as programs of ours, and the supervisor of the services."""
