"""Where pull requests live."""
