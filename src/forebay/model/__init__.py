"""Values that every other stage speaks in. Imports nothing of Forebay."""
