"""A data server: objects under a folder, and on the first one the names of all files."""
