"""A layout for an application's next run: decided, applied and recorded."""
