"""Cards that are cut into parts by the hardware: which part goes where, so that the largest hole stays."""
