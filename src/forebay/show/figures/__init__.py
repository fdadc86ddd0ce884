"""The figures of a study and the pictures of single runs, as PNG and PDF files."""
