"""What applications need: the shape of their bandwidth curves, and curves made up to that shape."""
