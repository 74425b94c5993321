"""Autoencoders with decoder columns of norm 1."""

import numpy as np

from ...theory import arguments
from ...theory.models import Model

__all__ = ["folded"]


def folded(sae: Model) -> Model:
    r"""Return an autoencoder that does the same with decoder columns of norm 1.

    The norm of column i goes into row i of the encoder, its bias and its threshold: :math:`h_i` becomes
    :math:`\|d_i\| h_i`. A latent whose decoder column is 0 stays as it is.

    Parameters
    ----------
    sae : Model
        With latents that are "relu" or "jumprelu".

    Returns
    -------
    Model

    Raises
    ------
    ValueError
        If it is no such model.

    Examples
    --------
    >>> one = Model([[1.0, 0.0]], b_in=-0.1, hidden="jumprelu", W_out=[[2.0], [0.0]], output="identity",
    ...             thresholds=0.3)
    >>> found = folded(one)
    >>> found.W_in, found.b_in, found.thresholds, found.W_out.ravel()
    (array([[2., 0.]]), array([-0.2]), array([0.6]), array([1., 0.]))
    """
    if not isinstance(sae, Model) or sae.hidden == "identity":
        raise ValueError(
            f"`sae` must be a Model with hidden='relu' or 'jumprelu'; got {arguments.shown(sae)}."
        )
    norms = np.linalg.norm(sae.W_out, axis=0)
    size = np.where(norms > 0.0, norms, 1.0)
    thresholds = sae.thresholds * size if sae.hidden == "jumprelu" else sae.thresholds
    return Model(sae.W_in * size[:, None], b_in=sae.b_in * size, hidden=sae.hidden, W_out=sae.W_out / size,
                 b=sae.b, output=sae.output, thresholds=thresholds)  # fmt: skip
