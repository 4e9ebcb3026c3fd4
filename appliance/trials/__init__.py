"""`appliance gate-check`: faults made on purpose, against the real cycle, and a judge who knows what was made.

The product's own client, store, git, keeper, delivery and gate run in a temporary directory; the forge is a small
server on the loopback (`github`), the model a script (`model`). `table` has the faults, one row each; `oracle` judges
what the forge was told and what is left, without asking the product.
"""
