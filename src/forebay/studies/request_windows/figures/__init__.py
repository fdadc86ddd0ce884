"""The figures of this study."""
