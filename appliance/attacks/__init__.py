"""The attacks of the battery: what a hostile pull request's program would try, in the jail and in Codex's sandbox.

They run there as a pull request's own program would: from the checkout, with the system's Python and nothing else. So
these modules import the standard library alone, and each other. Every attack says what it reached, and whether its
control held: the same attempt where it is allowed. They print where they got to, never what they found there.
"""
