"""Values that all other stages exchange. Imports nothing else of Forebay."""
