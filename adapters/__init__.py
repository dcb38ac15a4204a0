"""Marker that keeps this folder out of the import names; nothing here is shipped."""
