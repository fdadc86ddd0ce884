"""What programs use: a client that blocks, one for asyncio, and their common core."""
