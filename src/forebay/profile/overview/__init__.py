"""What one run did: its files, its times, its processes and its targets, from its log."""
