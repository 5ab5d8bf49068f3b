"""Benchmarks: one command each. They print ratios from one run, and CPU-seconds with wall time."""
