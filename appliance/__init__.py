"""Reviews pull requests with Codex, and never blames them for a fault that is not theirs."""

__version__ = "0.1.0"
