"""The dashboard: one page that shows a run live, its models and its games, in a browser."""
