"""The Persian rug at finite size: optimum, Hadamard operators, exact finite-size loss."""
