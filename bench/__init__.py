"""Benchmarks: CPU seconds per million events and ratios within one run, as JSON on standard output."""
