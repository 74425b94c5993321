"""The ReLU output model (Elhage et al. 2022): loss by sparsity class, feature benefit, interference."""
