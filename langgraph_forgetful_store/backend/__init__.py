"""How the store talks to Redis: keys, records, scripts, flows and the two drivers that run them."""
