"""Past runs: reads logs, traces and measurements into one history."""
