"""The policies in virtual time: a simulator in each folder, and what they share."""
