"""The client's side of exposed volumes."""
