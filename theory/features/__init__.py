"""Laws of the data: sparse features, equal or not, independent or in groups."""

from .derive import (
    derive_chernoff_bound,
    derive_eigenvalues,
    derive_moments,
    derive_value_moment,
    derive_value_transform,
)
from .groups import Group, exclusive, parent_child, synchronous
from .law import Features, as_features
from .sparse import SparseUniform
from .values import VALUES, ValueDistribution, rectified_normal, register, uniform_from

__all__ = [
    "VALUES", "Features", "Group", "SparseUniform", "ValueDistribution", "as_features",
    "derive_chernoff_bound",
    "derive_eigenvalues", "derive_moments", "derive_value_moment", "derive_value_transform", "exclusive",
    "parent_child", "rectified_normal", "register", "synchronous", "uniform_from",
]  # fmt: skip
