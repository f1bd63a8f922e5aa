"""What is pure in a search: filters, similarity and ranking."""
