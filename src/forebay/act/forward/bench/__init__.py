"""Real processes that drive the forwarding layer with known patterns, and check every byte that comes back."""
