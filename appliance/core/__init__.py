"""Decisions: pure functions over frozen dataclasses; no clock, no environment, no I/O."""
