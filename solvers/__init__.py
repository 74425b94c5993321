"""What finite sizes give: compiled solvers. Arrays and a seed or Generator in, frozen dataclasses out."""
