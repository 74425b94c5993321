"""Two features in one dimension, solved globally: diagram, transitions, basins, lower bounds."""
