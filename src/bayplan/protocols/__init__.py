"""Wire formats, bytes in and values out: no sockets, no clock, no files."""
