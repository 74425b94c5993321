"""The exact expected loss of networks with ReLU or JumpReLU hidden neurons and a linear readout."""
