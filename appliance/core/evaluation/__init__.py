"""How good a reviewer is: cases with known defects, what a review found of them, and the figures of it all."""
