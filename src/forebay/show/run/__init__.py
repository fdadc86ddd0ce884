"""The page of one run: what an administrator can send to the user who ran it."""
