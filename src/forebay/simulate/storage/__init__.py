"""Space on a platform's disks in virtual time: what storage policies decide, and what becomes of it."""
