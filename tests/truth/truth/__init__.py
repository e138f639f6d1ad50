"""The same rows in the lab and on the wire, and whether they agree."""
