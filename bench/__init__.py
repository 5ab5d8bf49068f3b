"""Benchmarks: one command each, ratios from one run, CPU-seconds beside wall time."""
