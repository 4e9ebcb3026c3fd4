"""Figures of the built image, for the README: `python -m tests.bench`. Nothing here is asserted in a test."""
