"""Forgetting for good, and the record of what was done."""
