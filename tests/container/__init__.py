"""Tests of the built image, started with compose.yaml's own options (see `stack`)."""
