"""The agent of a storage node: it reports the node's disks and makes and removes volumes."""
