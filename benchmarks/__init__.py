"""Measure a daemon from outside, each figure beside a raw baseline of the same run.

`python -m benchmarks` runs them all; see `README.md` here.
"""
