"""The methods of the store beyond `BaseStore`, by what they are for; each is one flow, run by either driver."""
