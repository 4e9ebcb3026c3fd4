"""What each attack test proves: the defence that it needs, and the change that takes that defence out."""
