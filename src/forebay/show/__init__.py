"""Output for people: options of the command line, tables, figures, reports, the page."""
