"""From memories to a part of a prompt."""
