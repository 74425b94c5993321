"""Points on a sphere, packed and bounded: the limit of one feature on and encodings of equal length."""
