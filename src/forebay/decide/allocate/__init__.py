"""How many targets each application gets."""
