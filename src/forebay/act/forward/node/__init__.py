"""An I/O node: sessions of clients, a queue, and a back end of data servers or a mounted folder."""
