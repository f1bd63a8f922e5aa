"""One flow per operation of the store."""
