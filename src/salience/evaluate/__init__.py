"""Measure, compare, tune and calibrate profiles on your own data; the sample and its demo."""
