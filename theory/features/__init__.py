"""Laws of the data: sparse features, alike or not, independent or in groups."""

from .derive import derive_chernoff_bound, derive_eigenvalues, derive_moments
from .groups import Group, exclusive, parent_child, synchronous
from .law import VALUES, Features, as_features
from .sparse import SparseUniform

__all__ = [
    "VALUES",
    "Features",
    "Group",
    "SparseUniform",
    "as_features",
    "derive_chernoff_bound",
    "derive_eigenvalues",
    "derive_moments",
    "exclusive",
    "parent_child",
    "synchronous",
]
