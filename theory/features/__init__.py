"""Laws of the data: sparse features, alike or not, independent or in groups."""

from .law import VALUES, Features, as_features
from .sparse import SparseUniform, derive_chernoff_bound, derive_eigenvalues, derive_moments

__all__ = [
    "VALUES",
    "Features",
    "SparseUniform",
    "as_features",
    "derive_chernoff_bound",
    "derive_eigenvalues",
    "derive_moments",
]
