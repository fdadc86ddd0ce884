"""What the web page gets: its files, its views of the state, and updates."""
