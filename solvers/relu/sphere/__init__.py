"""Points on a sphere: the limit of one feature on and equal lengths. Packings and bounds."""
