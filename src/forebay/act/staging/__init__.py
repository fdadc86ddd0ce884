"""Copies trees of files into and out of the space of grants, with the owner's rights."""
