"""The web page's files, its views of the state, and its updates."""
