"""Global minimisation of the exact loss from many starts."""
