"""Applications that compute and do I/O on targets that they share, after Bandet et al. 2024."""
