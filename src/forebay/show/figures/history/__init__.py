"""Pictures of the history: applications, runs, profiles, layouts and OSTs."""
