"""s0d: one program that owns processes."""

__version__ = "0.1.0"
