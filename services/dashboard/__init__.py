"""The page: watch a run learn, walk through its games, play its models."""
