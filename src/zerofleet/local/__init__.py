"""Local mode: the stores as programs of ours, and the supervisor of the services."""
