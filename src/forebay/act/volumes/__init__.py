"""Space on the disks of a storage node: made for a grant, found again after a crash, and released without a trace."""
