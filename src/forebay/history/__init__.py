"""What ran: logs, traces and measurements, read into one history."""
