"""Self-play: games against itself with the best model, kept however the worker ends."""
