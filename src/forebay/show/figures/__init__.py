"""The figures of studies and of single runs, as PNG and PDF files."""
