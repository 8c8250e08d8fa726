"""Measurement: data sets, metrics, benchmarks."""
